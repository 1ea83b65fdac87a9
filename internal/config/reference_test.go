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

// TestReference_EventsModes_MapToSinks: the page names the kinds of sinks that each value of
// events.mode stands for, every kind that there is among them, and with a key that exists.
func TestReference_EventsModes_MapToSinks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if value, is := strings.CutPrefix(strings.TrimSpace(cells[0]), "events.mode = "); is {
			rows[value] = cells[1:]
		}
	}
	unnamed := slices.Clone(sinkKinds)
	for value, kinds := range map[string][]string{
		"poll": nil, "log": {"log"}, "mq_outbox": {"kafka", "nats"}, "webhook": {"webhook"},
	} {
		row := rows[value]
		if len(row) != 2 {
			t.Errorf("events.mode = %s: row %q", value, row)
			continue
		}
		key := "`sinks.*.kind`"
		if kinds == nil {
			key = "none"
		}
		if got := strings.TrimSpace(row[0]); got != key {
			t.Errorf("events.mode = %s: key %s, want %s", value, got, key)
		}
		for _, kind := range sinkKinds {
			named := slices.Contains(strings.FieldsFunc(row[1],
				func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }), kind)
			if named != slices.Contains(kinds, kind) {
				t.Errorf("events.mode = %s: it names kind %s: %t", value, kind, named)
			}
		}
		unnamed = slices.DeleteFunc(unnamed,
			func(kind string) bool { return slices.Contains(kinds, kind) })
	}
	if len(rows) != 4 || len(unnamed) > 0 {
		t.Errorf("values %v; kinds without a value: %q", rows, unnamed)
	}
}
