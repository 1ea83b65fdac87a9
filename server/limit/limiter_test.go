package limit

import (
	"log/slog"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/status"
)

func TestLimiter_CallerAboveRate_Rejected(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(time.Unix(1_700_000_000, 0))
	limited := map[string]int{}
	l := New(defaultLimits(), c, slog.New(slog.DiscardHandler), Counters{
		Busy:    func() { t.Error("the node is not busy") },
		Limited: func(caller, limit string) { limited[caller+" "+limit]++ },
	})
	l.SetCallers(map[string]Caller{"slow": {Rate: 2}, "other": {}})
	call := func(caller, method string) error {
		slot, err := l.Enter(&ConnState{}, caller, method)
		if err == nil {
			slot.Release()
		}
		return err
	}
	const light, heavy = pb.TxService_CreateTx_FullMethodName,
		pb.TxService_BatchCreateTx_FullMethodName
	if err := call("slow", heavy); err != nil {
		t.Fatalf("a heavy call, the whole burst: %v", err)
	}
	s := status.From(call("slow", light), "")
	if s.Code() != codes.ResourceExhausted || status.ReasonOf(s) != "CALLER_LIMITED" {
		t.Fatalf("got %v, want CALLER_LIMITED", s)
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			// The next call is due in half a second; up to half is added at random.
			if delay := info.GetRetryDelay().AsDuration(); delay < 500*time.Millisecond ||
				delay > 751*time.Millisecond {
				t.Errorf("retry in %v", delay)
			}
		}
	}
	if err := call("other", light); err != nil {
		t.Errorf("another caller: %v", err)
	}
	if err := call("slow", "/grpc.health.v1.Health/Check"); err != nil {
		t.Errorf("a health check: %v", err)
	}
	c.Advance(500 * time.Millisecond)
	if err := call("slow", light); err != nil {
		t.Errorf("after the delay: %v", err)
	}
	if limited["slow rate"] != 1 || len(limited) != 1 {
		t.Errorf("counted %v", limited)
	}
}

func TestLimiter_Used_NamesCallersOnly(t *testing.T) {
	t.Parallel()
	l := New(defaultLimits(), clock.Real{}, slog.New(slog.DiscardHandler),
		Counters{Busy: func() {}, Limited: func(string, string) {}})
	for _, caller := range []string{"shop", "", ""} {
		c := &ConnState{source: sourceOf(from("192.0.2.1").from)}
		if _, err := l.Enter(c, caller, pb.TxService_CreateTx_FullMethodName); err != nil {
			t.Fatal(err)
		}
	}
	used := l.Used(LimitCalls)
	if len(used) != 2 || used["shop"] != 1 || used[""] != 2 || l.Used(LimitStreams)[""] != 0 {
		t.Errorf("used %v and %v", used, l.Used(LimitStreams))
	}
}

// TestLimiter_ListsOfOneCaller_LimitedShare: connections of their own get a caller no more lists.
func TestLimiter_ListsOfOneCaller_LimitedShare(t *testing.T) {
	t.Parallel()
	limits := defaultLimits()
	limits.Calls = 1024
	l := New(limits, clock.Real{}, slog.New(slog.DiscardHandler),
		Counters{Busy: func() {}, Limited: func(string, string) {}})
	l.SetCallers(map[string]Caller{"slow": {}, "other": {}})
	var slots []*Slot
	list := func(caller string) error {
		slot, err := l.Enter(&ConnState{}, caller, pb.TxService_ListTxs_FullMethodName)
		if err == nil {
			slots = append(slots, slot)
		}
		return err
	}
	var err error
	for err == nil {
		err = list("slow")
	}
	if want := limits.Calls / HeavyCall / ListShare; len(slots) != want {
		t.Errorf("one caller has %d lists, want %d", len(slots), want)
	}
	if s := status.From(err, ""); status.ReasonOf(s) != "CALLER_LIMITED" {
		t.Errorf("got %v, want CALLER_LIMITED", s)
	}
	if err := list("other"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	for _, slot := range slots {
		slot.Release()
	}
	if err := list("slow"); err != nil {
		t.Errorf("after its lists were read: %v", err)
	}
}
