package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestScenarioList: unknown names are rejected before anything starts; -list prints the known ones.
func TestScenarioList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{
			"-size huge",
			`size "huge" is none of archive, counts, full, growth, ledgers, signers, small, ` +
				`watchers`,
		},
		{
			"-only nonsense",
			`-only "nonsense" is none of the scenarios of size small, which are limit-fsync, ` +
				`limit-sign, `,
		},
		{
			"-size growth -only accept",
			`-only "accept" is none of the scenarios of size growth, which are ` +
				`growth-stored.1000, `,
		},
	} {
		var out, errs bytes.Buffer
		args := append(strings.Fields(c.args), "-budgets", "budgets.yaml")
		if err := measure(t.Context(), args, &out, &errs); err == nil ||
			!strings.HasPrefix(err.Error(), c.says) ||
			out.Len()+errs.Len() > 0 {
			t.Errorf("%s: %v, printed %s%s", c.args, err, &out, &errs)
		}
	}
	var out bytes.Buffer
	if err := measure(t.Context(), []string{"-list"}, &out, io.Discard); err != nil {
		t.Error(err)
	}
	for name, s := range sizes {
		if line := name + ": " + strings.Join(s.names(), " ") + "\n"; !strings.Contains(
			out.String(), line) {
			t.Errorf("%q is not in\n%s", line, &out)
		}
	}
}

// TestRatios_Missing: a number whose limit was not measured has no ratio, and the limit is named.
func TestRatios_Missing(t *testing.T) {
	t.Parallel()
	r := newResults()
	r.add("a", "1/s", 2)
	r.add("b", "1/s", 2)
	r.add("limit.b", "1/s", 4)
	against := map[string]string{"a": "limit.a", "b": "limit.b", "c": "limit.c"}
	r.compare(against)
	if got := r.missing(against); !slices.Equal(got, []string{"limit.a"}) || r.by["a"].Of != "" ||
		r.by["b"].Ratio != 0.5 {
		t.Errorf("%v, %+v, %+v", got, r.by["a"], r.by["b"])
	}
}

// A probe ends and leaves no file, also if the measured function fails; then it adds nothing.
func TestProbes_End(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		b := &bench{db: &database{dir: t.TempDir()}, results: newResults(), errs: io.Discard}
		file := filepath.Join(b.db.dir, "probe")
		err := b.probed("x.", func() error {
			for range 10_000_000 { // it begins beside this
				if _, err := os.Stat(file); err == nil {
					return want
				}
			}
			return errors.New("the probe has not begun")
		})
		if !errors.Is(err, want) {
			t.Errorf("gave %v, want %v", err, want)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after %v its file is there: %v", want, err)
		}
		if added := b.results.by["x.machine.disk.p99"] != nil; added != (want == nil) {
			t.Errorf("after %v added: %v", want, added)
		}
	}
}
