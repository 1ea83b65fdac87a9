package pgproxy

import (
	"testing"
)

func settled(r *Rule) bool {
	select {
	case <-r.Settled():
		return true
	default:
		return false
	}
}

func (b *bench) settles(r *Rule) {
	b.t.Helper()
	b.await("the rule is settled", func() bool { return settled(r) })
}

// The server has done everything while the client still waits, and then hears the truth.
func TestHoldReply(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]Match{
		"bind":    func(m Message) bool { return m.Type == 'B' && len(m.Params) == 1 },
		"execute": Running("insert"),
		"sync":    func(m Message) bool { return m.Type == 'S' },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if _, err := b.conn.Prepare(t.Context(), "ready", "insert into "+b.table+
				" values ($1)"); err != nil {
				t.Fatal(err)
			}
			hold := b.On(match, HoldReply)
			result := make(chan error, 1)
			go func() {
				_, err := b.conn.Exec(t.Context(), "ready", 1)
				result <- err
			}()
			b.fired(hold)
			if got := b.rows(); got != 1 {
				t.Errorf("%d rows when the reply is held", got)
			}
			select {
			case err := <-result:
				t.Fatalf("the client received %v", err)
			default:
			}
			if settled(hold) {
				t.Error("settled before its release")
			}
			hold.Release()
			if err := <-result; err != nil {
				t.Error(err)
			}
			b.settles(hold)
			if err := b.insert(t.Context(), b.conn, 2); err != nil {
				t.Errorf("the connection afterwards: %v", err)
			}
		})
	}
}

// A message that is held back from the server is settled when the server has answered, or the
// connection has ended.
func TestSettled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*bench, *Rule){
		"answered": func(_ *bench, r *Rule) { r.Release() },
		"cut":      func(b *bench, _ *Rule) { b.CutAll() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			hold := b.On(Running("insert"), HoldBefore)
			result := make(chan error, 1)
			go func() { result <- b.insert(t.Context(), b.conn, 1) }()
			b.fired(hold)
			if settled(hold) || b.rows() != 0 {
				t.Errorf("settled: %v; %d rows", settled(hold), b.rows())
			}
			end(b, hold)
			b.settles(hold)
			if err := <-result; (err == nil) != (name == "answered") {
				t.Errorf("the client received %v", err)
			}
		})
	}
}

func TestWithdraw(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := b.On(Running("insert"), CutMidway), b.On(Running("insert"), LoseReply)
	if !b.Withdraw(first) || b.Withdraw(first) {
		t.Error("a rule is withdrawn once")
	}
	b.unknown(b.insert(t.Context(), b.conn, 1))
	b.fired(second)
	if b.Withdraw(second) {
		t.Error("a rule was withdrawn after it met its message")
	}
	if got := b.rows(); got != 1 {
		t.Errorf("%d rows: the wrong rule", got)
	}
}
