// Package runtest is the test suite that every service of the run package must pass.
package runtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

const (
	rounds = 30
	// limit is far above the time that any service needs: it is for failing, not for measuring.
	limit = 30 * time.Second
)

// Stress runs many instances that fresh makes, each in turn, and ends them before they begin, while
// they begin and a little later. Each must return, with nil or the context's error. Goroutine leaks
// are detected by goleak in the package's TestMain.
func Stress(t *testing.T, fresh func() func(context.Context) error) {
	t.Helper()
	for i := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		if i%3 == 0 {
			cancel()
		}
		returned := make(chan error, 1)
		service := fresh()
		go func() { returned <- service(ctx) }()
		if i%3 == 2 {
			linger(returned, rand.N(20*time.Millisecond))
		}
		cancel()
		await(t, returned)
	}
}

// linger waits for d, or until a service has returned, whose error it puts back.
func linger(returned chan error, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case err := <-returned:
		returned <- errors.Join(errors.New("returned before its context ended"), err)
	}
}

func await(t *testing.T, returned <-chan error) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-returned:
		if err != nil && err != context.Canceled {
			t.Errorf("the service ended with: %v", err)
		}
	case <-timer.C:
		t.Fatalf("the service did not return within %v of its context's end", limit)
	}
}
