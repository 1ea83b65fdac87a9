package clock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestReal_InSynctestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := Real{}
		from := c.Now()
		timer := c.NewTimer(time.Hour)
		at := <-timer.C
		if got := at.Sub(from); got != time.Hour {
			t.Errorf("the timer fired after %v", got)
		}
		timer.Reset(time.Minute)
		if !timer.Stop() {
			t.Error("Stop returned false for a new timer")
		}
		if got := c.Now().Sub(from); got != time.Hour {
			t.Errorf("Now moved by %v", got)
		}
	})
}

func TestSleep(t *testing.T) {
	t.Parallel()
	reason := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		from := time.Now()
		if err := Sleep(t.Context(), Real{}, time.Second); err != nil ||
			time.Since(from) != time.Second {
			t.Errorf("Sleep: %v after %v", err, time.Since(from))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(reason) })
		if err := Sleep(ctx, Real{}, time.Hour); !errors.Is(err, reason) {
			t.Errorf("Sleep, cancelled: %v", err)
		}
		if got := time.Since(from); got != 2*time.Second {
			t.Errorf("Sleep outlived its context: %v", got)
		}
	})
}

// A timer set at random moments behaves like a plain list of deadlines.
func TestFake_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := NewFake(start)
		timers := make([]*Timer, 4)
		due := make([]time.Time, len(timers)) // zero: not set
		for i := range timers {
			timers[i] = f.NewTimer(time.Hour)
			timers[i].Stop()
		}
		now := start
		t.Repeat(map[string]func(*rapid.T){
			"reset": func(t *rapid.T) {
				i, d := rapid.IntRange(0, 3).Draw(t, "timer"), seconds(t, -1)
				if was := timers[i].Reset(d); was == due[i].IsZero() {
					t.Fatalf("Reset(%d) = %v, due %v", i, was, due[i])
				}
				due[i] = now.Add(max(d, 0))
			},
			"stop": func(t *rapid.T) {
				i := rapid.IntRange(0, 3).Draw(t, "timer")
				if was := timers[i].Stop(); was == due[i].IsZero() {
					t.Fatalf("Stop(%d) = %v, due %v", i, was, due[i])
				}
				due[i] = time.Time{}
			},
			"advance": func(t *rapid.T) {
				d := seconds(t, 0)
				f.Advance(d)
				now = now.Add(d)
			},
			"receive": func(t *rapid.T) { receive(t, now, timers, due) },
			"": func(t *rapid.T) {
				if got, ok := f.Next(); !f.Now().Equal(now) || !sameNext(got, ok, now, due) {
					t.Fatalf("Now = %v, Next = %v, %v; want %v and the first of %v", f.Now(), got,
						ok, now, due)
				}
			},
		})
	})
}

func seconds(t *rapid.T, least int) time.Duration {
	return time.Duration(rapid.IntRange(least, 5).Draw(t, "seconds")) * time.Second
}

// receive takes every value there is, which unsets its timer in the model.
func receive(t *rapid.T, now time.Time, timers []*Timer, due []time.Time) {
	for i, timer := range timers {
		select {
		case at := <-timer.C:
			if due[i].IsZero() || due[i].After(now) || !at.Equal(due[i]) {
				t.Fatalf("timer %d fired with %v, due %v, now %v", i, at, due[i], now)
			}
			due[i] = time.Time{}
		default:
			if !due[i].IsZero() && !due[i].After(now) {
				t.Fatalf("timer %d was due %v and did not fire by %v", i, due[i], now)
			}
		}
	}
}

func sameNext(got time.Time, ok bool, now time.Time, due []time.Time) bool {
	var want time.Time
	for _, d := range due {
		if d.After(now) && (want.IsZero() || d.Before(want)) {
			want = d
		}
	}
	return got.Equal(want) && ok == !want.IsZero()
}

func TestFake_StaleValue_Dropped(t *testing.T) {
	t.Parallel()
	f := NewFake(start)
	timer := f.NewTimer(time.Second)
	f.Advance(time.Second)
	timer.Reset(time.Minute)
	select {
	case at := <-timer.C:
		t.Fatalf("received %v, which belongs to the setting before", at)
	default:
	}
	f.Advance(time.Minute)
	if at := <-timer.C; !at.Equal(start.Add(61 * time.Second)) {
		t.Fatalf("received %v", at)
	}
}

func TestFake_Backwards_Panics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("Advance took a negative duration")
		}
	}()
	NewFake(start).Advance(-1)
}

func TestFake_Concurrent(t *testing.T) {
	t.Parallel()
	f := NewFake(start)
	var wg sync.WaitGroup
	shared := f.NewTimer(0)
	for range 8 {
		wg.Go(func() {
			for range 100 {
				shared.Reset(0)
				f.Advance(time.Millisecond)
			}
		})
	}
	wg.Wait()
	if got := f.Now().Sub(start); got != 800*time.Millisecond {
		t.Errorf("moved by %v", got)
	}
}
