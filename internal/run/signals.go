package run

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal os.Signal }

// Error names the signal.
func (e SignalError) Error() string { return fmt.Sprintf("received %v", e.Signal) }

// Signals returns a context that ends on the first of sigs, or of SIGINT and
// SIGTERM when none are named; its cause is a SignalError. The second signal
// calls force, nil for an exit at once with the status a shell would report.
// The returned function gives the signals back.
func Signals(parent context.Context, force func(os.Signal),
	sigs ...os.Signal) (context.Context, context.CancelFunc) {
	if len(sigs) == 0 {
		sigs = []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	if force == nil {
		force = exit
	}
	ctx, cancel := context.WithCancelCause(parent)
	got := make(chan os.Signal, 2)
	signal.Notify(got, sigs...)
	release := make(chan struct{})
	go watch(got, release, cancel, force)
	return ctx, sync.OnceFunc(func() {
		signal.Stop(got)
		close(release)
		cancel(context.Canceled)
	})
}

func watch(got <-chan os.Signal, release <-chan struct{}, cancel context.CancelCauseFunc,
	force func(os.Signal)) {
	for first := true; ; first = false {
		select {
		case s := <-got:
			if !first {
				force(s)
				return
			}
			cancel(SignalError{s})
		case <-release:
			return
		}
	}
}

func exit(s os.Signal) {
	code := 1
	if n, ok := s.(syscall.Signal); ok {
		code = 128 + int(n)
	}
	os.Exit(code)
}
