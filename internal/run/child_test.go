package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// child is the process under test: it prints its progress and never stops on its own.
func child(t *testing.T) {
	ctx, stop := Signals(t.Context(), nil)
	defer stop()
	g := NewGroup(
		nil,
		Service{Name: "stubborn", Grace: time.Hour, Run: func(ctx context.Context) error {
			fmt.Println("running")
			<-ctx.Done()
			fmt.Println("stopping")
			select {}
		}},
	)
	t.Error(g.Run(ctx))
}

// runChild sends SIGTERM after each line that the child prints.
func runChild(t *testing.T) (code int, out string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSignals_Second_Exits$")
	cmd.Env = append(os.Environ(), "RUN_TEST_CHILD=1")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil &&
			!errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String()
}
