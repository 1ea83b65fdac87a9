package main

import (
	"strings"
	"testing"
)

// A program that nobody told anything ends, and says who starts it; one whose keys are not there
// says that.
func TestServe_MissingInput(t *testing.T) {
	t.Parallel()
	for input, says := range map[string]string{
		"": "started by bench",
		`{"Keys": "/nowhere", "PasswordFile": "/nowhere/password"}`: "/nowhere/password does not " +
			"exist",
	} {
		if err := serve(strings.NewReader(input), nil); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", input, err, says)
		}
	}
}
