package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/internal/run/runtest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

// record is the order in which things happened.
type record struct {
	mu   sync.Mutex
	list []string
}

func (r *record) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, s)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.list, " ")
}

// service runs until it is asked to stop, and then takes a second.
func (r *record) service(name string) Service {
	return Service{
		Name: name,
		Run: func(ctx context.Context) error {
			r.add("+" + name)
			<-ctx.Done()
			time.Sleep(time.Second)
			r.add("-" + name)
			return ctx.Err()
		},
		Ready: func(context.Context) error {
			time.Sleep(time.Second)
			r.add("=" + name)
			return nil
		},
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r record
		g := NewGroup(nil, r.service("a"), r.service("b"), r.service("c"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := g.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		if got, want := r.String(), "+a =a +b =b +c =c -c -b -a"; got != want {
			t.Errorf("happened %q, want %q", got, want)
		}
	})
}

func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r record
		slow := r.service("b")
		slow.Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		g := NewGroup(nil, r.service("a"), slow, r.service("c"))
		time.AfterFunc(10*time.Second, g.Stop)
		if err := g.Run(t.Context()); err != nil {
			t.Errorf("Run: %v", err)
		}
		if got, want := r.String(), "+a =a +b -b -a"; got != want {
			t.Errorf("happened %q, want %q", got, want)
		}
	})
}

// Each of these services ends the group in its way; the others end in order.
func TestFailures(t *testing.T) {
	t.Parallel()
	ends := func(err error) func(context.Context) error {
		return func(context.Context) error { time.Sleep(30 * time.Second); return err }
	}
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	never := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name string
		bad  Service
		is   error
		text string
	}{
		{"fails", Service{Run: ends(errBroken)}, errBroken, "run: service bad: broken"},
		{"ends", Service{Run: ends(nil)}, ErrEnded, "run: service bad: ended unexpectedly"},
		{
			"fails unready",
			Service{Run: ends(errBroken), Ready: never},
			errBroken,
			"run: service bad: broken",
		},
		{
			"not ready",
			Service{Run: waits, Ready: ends(errBroken)},
			errBroken,
			"run: start bad: broken",
		},
		{
			"late",
			Service{Run: waits, Ready: never, StartLimit: time.Hour},
			nil,
			"run: start bad: not ready after 1h0m0s",
		},
		{
			"cancelled unasked",
			Service{Run: ends(context.Canceled)},
			context.Canceled,
			"run: service bad: context canceled",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var r record
				tt.bad.Name = "bad"
				g := NewGroup(nil, r.service("a"), r.service("b"), tt.bad)
				err := g.Run(t.Context())
				if tt.is != nil && !errors.Is(err, tt.is) || err == nil || err.Error() != tt.text {
					t.Errorf("Run: %v, want %q", err, tt.text)
				}
				if got, want := r.String(), "+a =a +b =b -b -a"; got != want {
					t.Errorf("happened %q, want %q", got, want)
				}
			})
		})
	}
}

func TestStop_Failures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r record
		hangs := make(chan struct{})
		defer close(hangs)
		g := NewGroup(
			nil,
			r.service("a"),
			Service{
				Name:  "hangs",
				Grace: time.Second,
				Run:   func(context.Context) error { <-hangs; return nil },
			},
			Service{
				Name: "fails",
				Run:  func(ctx context.Context) error { <-ctx.Done(); return errBroken },
			},
			r.service("b"),
		)
		time.AfterFunc(time.Minute, g.Stop)
		err := g.Run(t.Context())
		want := "run: stop fails: broken\nrun: service hangs did not stop within its grace of 1s"
		if !errors.Is(err, ErrGrace) || !errors.Is(err, errBroken) || err.Error() != want {
			t.Errorf("Run: %v, want %v", err, want)
		}
		if got, want := r.String(), "+a =a +b =b -b -a"; got != want {
			t.Errorf("happened %q, want %q", got, want)
		}
	})
}

// A service must be able to use its context's values while it stops.
func TestStop_ContextValues(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 7))
	err := NewGroup(nil, Service{Name: "a", Run: func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		if ctx.Value(key{}) != 7 {
			return errBroken
		}
		return nil
	}}).Run(ctx)
	if err != nil {
		t.Error(err)
	}
}

func TestRun_Twice(t *testing.T) {
	t.Parallel()
	t.Run("run again", func(t *testing.T) {
		t.Parallel()
		g := NewGroup(nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
		if err := g.Run(ctx); !errors.Is(err, ErrAgain) {
			t.Error(err)
		}
		g.Stop()
	})
	t.Run("stopped before", func(t *testing.T) {
		t.Parallel()
		g := NewGroup(nil,
			Service{Name: "a", Run: func(context.Context) error { return errBroken }})
		g.Stop()
		g.Stop()
		if err := g.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("ended before", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g := NewGroup(nil,
			Service{Name: "a", Run: func(context.Context) error { return errBroken }})
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// For any event at any time, Run and every Stop return, and no service still runs after Stop.
func TestStress(t *testing.T) {
	t.Parallel()
	for range 200 {
		var wg sync.WaitGroup
		var alive atomic.Int32
		service := func(name string, life time.Duration) Service {
			return Service{
				Name: name,
				Run: func(ctx context.Context) error {
					alive.Add(1)
					defer alive.Add(-1)
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(life):
						return errBroken
					}
				},
				Ready: func(context.Context) error { return nil },
			}
		}
		g := NewGroup(nil, service("a", time.Hour), service("b", rand.N(2*time.Millisecond)),
			service("c", time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
		for range 2 {
			wg.Go(func() {
				if err := g.Run(ctx); err != nil && !errors.Is(err, errBroken) &&
					!errors.Is(err, ErrAgain) {
					t.Errorf("Run: %v", err)
				}
			})
			wg.Go(func() {
				<-ctx.Done()
				g.Stop()
				if n := alive.Load(); n != 0 {
					t.Errorf("%d services run after Stop", n)
				}
			})
		}
		wg.Wait()
		cancel()
	}
}

func TestGroup_Nested(t *testing.T) {
	t.Parallel()
	runtest.Stress(t, func() func(context.Context) error {
		var r record
		slow := Service{
			Name: "slow",
			Run:  func(ctx context.Context) error { <-ctx.Done(); return nil },
		}
		quick := r.service("quick")
		quick.Ready, quick.Run = nil, slow.Run
		return NewGroup(nil, slow, quick).Run
	})
}

func TestSignals(t *testing.T) {
	t.Parallel()
	forced := make(chan os.Signal, 1)
	ctx, stop := Signals(t.Context(), func(s os.Signal) { forced <- s }, syscall.SIGUSR1)
	defer stop()
	raise := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	raise()
	<-ctx.Done()
	var cause SignalError
	if !errors.As(context.Cause(ctx), &cause) || cause.Signal != syscall.SIGUSR1 {
		t.Errorf("the context ended with %v", context.Cause(ctx))
	}
	if len(forced) != 0 {
		t.Error("the first signal forced")
	}
	raise()
	if s := <-forced; s != syscall.SIGUSR1 {
		t.Errorf("forced by %v", s)
	}
}

func TestSignals_Restored(t *testing.T) {
	t.Parallel()
	ctx, stop := Signals(t.Context(), nil)
	stop()
	stop()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the context ended with %v", err)
	}
}

// The whole of it in a process of its own: a service that will not stop, two
// interrupts, and the status that a shell expects.
func TestSignals_Second_Exits(t *testing.T) {
	t.Parallel()
	if os.Getenv("RUN_TEST_CHILD") != "" {
		child(t)
		return
	}
	code, out := runChild(t)
	if want := 128 + int(syscall.SIGTERM); code != want ||
		!slices.Contains(strings.Fields(out), "stopping") {
		t.Errorf("the child ended with %d, want %d; it said %q", code, want, out)
	}
}
