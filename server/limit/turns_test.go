package limit

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/status"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	all := newTurns()
	ended, end := context.WithCancel(t.Context())
	end()
	take := func(ctx context.Context, key string) func() {
		t.Helper()
		release, err := all.take(ctx, key, 1)
		if (err == nil) != (ctx.Err() == nil) {
			t.Fatalf("take %s: %v", key, err)
		}
		return release
	}
	first := take(t.Context(), "a")
	take(ended, "a")
	second := make(chan func(), 1)
	go func() {
		release, _ := all.take(context.WithoutCancel(t.Context()), "a", 1)
		second <- release
	}()
	others := []func(){take(t.Context(), "b"), take(t.Context(), "c"), take(t.Context(), "d")}
	take(ended, "e")
	first()
	(<-second)()
	take(t.Context(), "e")()
	for _, release := range others {
		release()
	}
	if len(all.own) != 0 || len(all.all) != 0 {
		t.Errorf("%d callers and %d builds remain", len(all.own), len(all.all))
	}
}

// TestSlot_LongResponses_BoundedByCaller: a caller that reads nothing gets a limited number of
// bytes, and others get theirs.
func TestSlot_LongResponses_BoundedByCaller(t *testing.T) {
	t.Parallel()
	l := New(defaultLimits(), clock.Real{}, slog.New(slog.DiscardHandler),
		Counters{Busy: func() {}, Limited: func(string, string) {}})
	l.SetCallers(map[string]Caller{"slow": {}, "other": {}})
	const page = 2 << 20
	var held []*Slot
	hold := func(caller string) error {
		slot, err := l.Enter(&ConnState{}, caller, "/fencepost.v1.TxService/GetTx")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, slot)
		return slot.Hold(page)
	}
	n := 0
	var err error
	for ; err == nil; n++ {
		err = hold("slow")
	}
	if want := MaxUnreadOfCaller/page + 1; n != want ||
		status.ReasonOf(status.From(err, "")) != "CALLER_LIMITED" {
		t.Errorf("response %d was refused with %v, want %d", n, err, want)
	}
	if err := hold("other"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	for _, slot := range held {
		slot.Release()
	}
	if used := l.unread.Total(); used != 0 {
		t.Errorf("%d bytes stay taken", used)
	}
	if err := hold("slow"); err != nil {
		t.Errorf("after its responses were read: %v", err)
	}
}

// TestSlot_Build_WaitsForOwnBuild lets a caller wait for its own build, which does not end, and
// another build meanwhile. Callers without names share their source address.
func TestSlot_Build_WaitsForOwnBuild(t *testing.T) {
	t.Parallel()
	limits := defaultLimits()
	limits.Calls = 10_000
	l := New(limits, clock.Real{}, slog.New(slog.DiscardHandler),
		Counters{Busy: func() {}, Limited: func(string, string) {}})
	l.SetCallers(map[string]Caller{"slow": {}, "other": {}})
	build := func(caller string) error {
		slot, err := l.Enter(&ConnState{}, caller, "/fencepost.v1.TxService/ListTxs")
		if err != nil {
			t.Fatal(err)
		}
		_, err = slot.Build(t.Context(), time.Millisecond)
		return err
	}
	for i, step := range []struct {
		caller  string
		refused bool
	}{{"slow", false}, {"slow", true}, {"other", false}, {"", false}, {"", false}, {"", true}} {
		err := build(step.caller)
		busy := err != nil && status.ReasonOf(status.From(err, "")) == "NODE_BUSY"
		if busy != step.refused || (err != nil) != busy {
			t.Errorf("build %d, of %q: %v", i, step.caller, err)
		}
	}
}
