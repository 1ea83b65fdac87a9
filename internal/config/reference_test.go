package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestReference_UpToDate(t *testing.T) {
	t.Parallel()
	got, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Reference() {
		t.Error(
			"docs/configuration.md is outdated; run: go generate " +
				"./internal/config")
	}
}

func TestReference_DescribesEveryKey(t *testing.T) {
	t.Parallel()
	var walk func(prefix string, all []entry)
	walk = func(prefix string, all []entry) {
		seen := map[string]bool{}
		for _, e := range all {
			path := join(prefix, e.name)
			if seen[e.name] {
				t.Errorf("%s is twice in the table", path)
			}
			seen[e.name] = true
			if !strings.HasSuffix(e.text, ".") || strings.Contains(e.text, "|") {
				t.Errorf("%s: %q is no explanation for a table", path, e.text)
			}
			if e.required && e.byDefault != "" {
				t.Errorf("%s is required and has a default", path)
			}
			walk(path, e.inner)
		}
	}
	walk("", entries(schema()))
}

func TestOtherNames_EachHasKeysOrReason(t *testing.T) {
	t.Parallel()
	known, seen := paths("", entries(schema())), map[string]bool{}
	for _, o := range otherNames() {
		if seen[o.name] || len(o.keys) == 0 && o.why == "" {
			t.Errorf("%s is listed twice, or has neither a key nor a reason", o.name)
		}
		seen[o.name] = true
		for _, key := range o.keys {
			if !slices.Contains(known, key) {
				t.Errorf("%s: there is no key %s", o.name, key)
			}
		}
	}
}
