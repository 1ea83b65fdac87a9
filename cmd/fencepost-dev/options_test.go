package main

import (
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const line = "-period 200ms --grpc 127.0.0.1:9190 -rpc-port 8645 --signer clef"
	o, err := parse(strings.Fields(line))
	if err != nil || o.period != 200*time.Millisecond || o.grpc != "127.0.0.1:9190" ||
		o.rpcPort != 8645 || o.dir != ".run-clef" || o.ops != "127.0.0.1:9091" {
		t.Errorf("parsed %+v, %v", o, err)
	}
	for line, want := range map[string]string{
		"reset":               `unexpected argument "reset"`,
		"-reset x":            `unexpected argument "x"`,
		"--grpc 9545":         `invalid value "9545" for flag -grpc: must be HOST:PORT, like 127`,
		"--grpc :9545":        `must be HOST:PORT`,
		"--ops localhost":     `invalid value "localhost" for flag -ops: must be HOST:PORT`,
		"--ops 127.0.0.1:0":   `must be HOST:PORT`,
		"--rpc-port x":        `must be a port, 1 to 65535`,
		"--rpc-port 65536":    `must be a port, 1 to 65535`,
		"--period 5":          `must be a duration with a unit, like 1s`,
		"--period 1ms":        `at least 20ms`,
		"--signer vault":      `must be one of keystore, clef`,
		"--no-such-flag":      `-no-such-flag; see "fencepost-dev --help"`,
		"--grpc":              `flag needs an argument: -grpc`,
		"--verbose=sometimes": `-verbose`,
	} {
		_, err := parse(strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "--help") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q returned %v, want %s", line, err, want)
		}
	}
}

func TestParse_Help(t *testing.T) {
	t.Parallel()
	_, err := parse([]string{"--help"})
	if !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"(default 127.0.0.1:9090)", "(default 8545)", "(default 1s)",
		"(default keystore)", `(default ".run")`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing from the help:\n%s", want, err)
		}
	}
}

func TestPortsAreFree(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const anyPort = "127.0.0.1:0"
	taken, busy := l.Addr().String(), l.Addr().(*net.TCPAddr).Port
	for name, c := range map[string]struct {
		o    options
		want string
	}{
		"taken": {options{grpc: taken, ops: anyPort}, "--grpc"},
		"chain": {options{grpc: anyPort, ops: anyPort, rpcPort: busy}, "--rpc-port"},
	} {
		if err := portsAreFree(c.o); err == nil ||
			!strings.Contains(err.Error(), "choose another port with "+c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	free := taken
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := portsAreFree(options{grpc: free, ops: free}); err == nil ||
		!strings.Contains(err.Error(), "choose another port with --ops") {
		t.Errorf("twice: %v", err)
	}
}

func TestDemoCommand_NamesOtherPorts(t *testing.T) {
	t.Parallel()
	o := options{grpc: defaultGRPC, rpcPort: defaultRPCPort}
	if got := demoCommand(o, "http://127.0.0.1:8545"); got != "make demo" {
		t.Error(got)
	}
	o = options{grpc: "127.0.0.1:9190", rpcPort: 8645}
	want := `make demo ARGS="-server 127.0.0.1:9190 -rpc http://127.0.0.1:8645"`
	if got := demoCommand(o, "http://127.0.0.1:8645"); got != want {
		t.Error(got)
	}
}

// The documents start the node with flags that it has.
func TestDocuments_Flags(t *testing.T) {
	t.Parallel()
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range regexp.MustCompile(`make run ARGS="([^"]*)"`).
				FindAllStringSubmatch(string(text), -1) {
				found++
				if _, err := parse(strings.Fields(line[1])); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("found only %d command lines", found)
	}
}
