package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fencepost/fencepost/internal/run"
)

// asksEnv makes this test binary a program that asks on its terminal.
const asksEnv = "ASK_ON_TERMINAL"

func TestMain(m *testing.M) {
	if os.Getenv(asksEnv) == "" {
		os.Exit(m.Run())
	}
	ctx, release := run.Signals(context.Background(), nil)
	defer release()
	answer, err := promptTerminal(ctx, "Say: ")
	fmt.Printf("%q %v\n", answer, err)
}

// A person can answer, or leave, in every usual way, and finds the terminal as it was.
func TestPrompt_Terminal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys   string
		signal os.Signal
		want   string
	}{
		"an answer": {"correct hörse\r", nil, "\"correct hörse\" <nil>\n"},
		"nothing":   {"\r", nil, "\"\" <nil>\n"},
		"a slip":    {"xy\x7f\r", nil, "\"x\" <nil>\n"},
		"ctrl-c":    {"half\x03", nil, "\"\" no input; nothing changed\n"},
		"ctrl-d":    {"\x04", nil, "\"\" no input; nothing changed\n"},
		// Without keys: a terminal may deliver them only after the signal has been heard, when they
		// are shown again, and rightly.
		"a termination": {"", syscall.SIGTERM, "\"\" received terminated; nothing changed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, slave := openTerminal(t)
			before := termios(t, slave)
			var out bytes.Buffer
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), asksEnv+"=1")
			child.Stdin, child.Stdout = slave, &out
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			shown := readUntil(t, master, "Say: ")
			if _, err := io.WriteString(master, c.keys); err != nil {
				t.Fatal(err)
			}
			if c.signal != nil {
				if err := child.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
			}
			if err := child.Wait(); err != nil {
				t.Error(err)
			}
			if got := out.String(); got != c.want {
				t.Errorf("answered %s, want %s", got, c.want)
			}
			if after := termios(t, slave); after != before {
				t.Errorf("the terminal is left as %+v, was %+v", after, before)
			}
			slave.Close()
			rest, _ := io.ReadAll(
				master) // ends with an error, because the terminal is closed
			if shown += string(rest); strings.Trim(shown, "\r\n") != "Say: " {
				t.Errorf("the terminal shows %q", shown)
			}
		})
	}
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func termios(t *testing.T, terminal *os.File) unix.Termios {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *state
}

func readUntil(t *testing.T, r io.Reader, end string) string {
	t.Helper()
	var all []byte
	for one := make([]byte, 1); !bytes.HasSuffix(all, []byte(end)); {
		if _, err := r.Read(one); err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		all = append(all, one[0])
	}
	return string(all)
}
