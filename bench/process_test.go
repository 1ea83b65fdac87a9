package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/arch"
)

// A missing program of the node is reported with the remedy; a named one is used.
func TestNodeProgram(t *testing.T) {
	t.Parallel()
	there := filepath.Join(t.TempDir(), "some-node")
	if err := os.WriteFile(there, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := nodeProgram(there); err != nil || got != there {
		t.Errorf("gave %q, %v", got, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ named, at string }{
		{there + "s", there + "s"}, {filepath.Dir(there), filepath.Dir(there)}, {
			"", filepath.Join(filepath.Dir(self), "bench-node"),
		},
	} {
		_, err := nodeProgram(c.named)
		if err == nil || !strings.Contains(err.Error(), " "+c.at+": ") ||
			!strings.Contains(err.Error(), "make bench") ||
			!strings.Contains(err.Error(), "go build -o bin/bench-node ./bench/node") {
			t.Errorf("%q: %v", c.named, err)
		}
	}
}

// A node built long before the benchmark is detected.
func TestTap_OtherNodeVersion(t *testing.T) {
	t.Parallel()
	node, bench := filepath.Join(t.TempDir(), "bench-node"), filepath.Join(t.TempDir(), "bench")
	now := time.Now()
	for _, path := range []string{node, bench} {
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for age, want := range map[time.Duration]bool{
		0: false, buildTime / 2: false, 2 * buildTime: true, -2 * buildTime: false,
	} {
		if err := errors.Join(
			os.Chtimes(bench, now, now), os.Chtimes(node, now, now.Add(-age)),
		); err != nil {
			t.Fatal(err)
		}
		if older(node, bench) != want {
			t.Errorf("%s before the other: %v", age, !want)
		}
	}
	if older(node+"s", bench) || older(node, bench+"s") {
		t.Error("what is not there is older, or newer")
	}
}

// The parts of the resident memory add up; a process that has ended has none.
func TestResident(t *testing.T) {
	t.Parallel()
	r, err := residentOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if _, known := os.Stat("/proc/self/status"); known != nil {
		t.Logf("no data on this system: %+v", r)
		return
	}
	if r.anon < 1<<20 || r.file < 1<<20 ||
		math.Abs(r.rss-r.anon-r.file) > r.rss/10 { // the system adds up at different moments
		t.Errorf("%+v", r)
	}
	if r, err := residentOf(1 << 30); err != nil || r != (resident{}) {
		t.Errorf("of an unknown process: %+v, %v", r, err)
	}
}

// The measured node is linked from the packages of "fencepost serve", without the command line and
// the configuration, and from nothing else.
func TestNode_LinkedLikeProduct(t *testing.T) {
	t.Parallel()
	packages, err := arch.List("..")
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for _, p := range packages {
		imports[p.Path] = p.Imports
	}
	product, measured := linked(imports, "cmd/fencepost"), linked(imports, "bench/node")
	if !product["engine"] || !product["server"] {
		t.Fatal("the product has no engine, or no server")
	}
	for p := range product {
		commandLine := strings.HasPrefix(p, "cmd/") || p == "clients/go" ||
			p == "internal/config" || p == "internal/node" || p == "node"
		if strings.HasPrefix(p, "bench/") {
			t.Errorf("the product is linked from %s", p)
		}
		if !measured[p] && !commandLine {
			t.Errorf("the product is linked from %s, the node of the benchmark is not", p)
		}
	}
	for p := range measured {
		if !product[p] && !strings.HasPrefix(p, "bench/") {
			t.Errorf("the node of the benchmark is linked from %s, the product is not", p)
		}
	}
}

// linked are the packages of ours that a program is made of.
func linked(imports map[string][]string, program string) map[string]bool {
	all := map[string]bool{}
	for next := []string{program}; len(next) > 0; {
		p := next[0]
		next = next[1:]
		if !all[p] {
			all[p] = true
			next = append(next, imports[p]...)
		}
	}
	return all
}
