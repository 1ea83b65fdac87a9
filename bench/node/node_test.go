package main

import (
	"strings"
	"testing"
)

// The program reports missing input and missing keys.
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
