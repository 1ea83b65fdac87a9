package store

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// listening starts to listen, and waits for the first look.
func (k *kit) listening(s *Store) {
	k.t.Helper()
	ctx, cancel := context.WithCancel(k.ctx)
	var ended sync.WaitGroup
	ended.Go(func() { s.Listen(ctx) })
	k.t.Cleanup(ended.Wait)
	k.t.Cleanup(cancel)
	k.looks(s, "a listener that connected")
}

// looks waits for a look.
func (k *kit) looks(s *Store, why string) {
	k.t.Helper()
	k.eventually("a look because of "+why, func() bool {
		_, _, look := s.TakeWoken()
		return look
	})
}

// hears collects the wake-ups of a store, until all of these have arrived.
func (k *kit) hears(s *Store, want ...txn.SubmitterID) {
	k.t.Helper()
	got := map[txn.SubmitterID]bool{}
	k.eventually("hearing of all", func() bool {
		own, ids, look := s.TakeWoken()
		if look || len(own) > 0 {
			k.t.Errorf("a look, or names as if they were written here, where names were sent: %v",
				own)
		}
		for _, id := range ids {
			if got[id] = true; !slices.Contains(want, id) {
				k.t.Errorf("woken for %d", id)
			}
		}
		return len(got) == len(want)
	})
}

// TestNotify_OtherNodes_Woken: the sender itself is not woken.
func TestNotify_OtherNodes_Woken(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.open("a"), k.open("b")
	c := k.open("c")
	for _, s := range []*Store{a, b, c} {
		k.listening(s)
	}
	select {
	case <-b.Woken():
	default:
	}
	a.Notify(3, 5)
	k.hears(b, 3, 5)
	k.hears(c, 3, 5)
	select {
	case <-b.Woken():
	default:
		t.Error("Woken did not signal")
	}
	b.Notify(9)
	k.hears(a, 9) // messages come in order: its own came before, and was not heard
	a.Notify()
	k.looks(b, "another node")
}

// TestNotify_DoesNotWaitForDisk: its sessions alone do without.
func TestNotify_DoesNotWaitForDisk(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	for l, want := range map[*dedicatedConn]string{s.notifyConn: "off", s.renew: "on",
		s.lanes[0].conn: "on"} {
		var got string
		_, err := l.run(k.ctx, patience, func(conn *pgx.Conn, _ *db.Queries) error {
			return conn.QueryRow(k.ctx, "SHOW synchronous_commit").Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("synchronous_commit is %s (%v), want %s", got, err, want)
		}
	}
}

// TestNotify_Busy_Gathers: calls during a message are sent as one, and too many ids become a full
// check.
func TestNotify_Busy_Gathers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	p := k.proxy()
	a, b := k.open("a", func(c *Config) { c.URL = p.URL() }), k.open("b")
	k.listening(a)
	k.listening(b)
	sent := func(m pgproxy.Message) bool {
		return m.Type == 'E' &&
			strings.Contains(m.SQL, "pg_notify")
	}
	var statements atomic.Int64
	rule := p.On(sent, pgproxy.HoldReply)
	a.Notify(1)
	<-rule.Fired()
	for id := range txn.SubmitterID(20) {
		a.Notify(id + 1)
	}
	second := p.On(func(m pgproxy.Message) bool {
		if sent(m) {
			statements.Add(1)
		}
		return false
	}, pgproxy.HoldReply)
	defer second.Release()
	rule.Release()
	var all []txn.SubmitterID
	for id := range txn.SubmitterID(20) {
		all = append(all, id+1)
	}
	k.hears(b, all...)
	if n := statements.Load(); n != 1 {
		t.Errorf("%d statements for what came together, want 1", n)
	}
	var many []txn.SubmitterID
	for id := range txn.SubmitterID(3000) {
		many = append(many, 1_000_000_000+id)
	}
	a.Notify(many...)
	k.looks(b, "too many names")
}

// TestListen_ConnectionLost_Reconnects: a lost or silent connection is replaced, and a full check
// covers the missed wake-ups.
func TestListen_ConnectionLost_Reconnects(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*pgproxy.Proxy){
		"cut":    func(p *pgproxy.Proxy) { p.CutAll() },
		"silent": func(p *pgproxy.Proxy) { p.BlackHole() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			p := k.proxy()
			a := k.open("a")
			var dials atomic.Int64
			b := k.open("b", func(c *Config) {
				c.URL = p.URL()
				c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					dials.Add(1)
					return (&net.Dialer{}).DialContext(ctx, network, address)
				}
			})
			k.listening(a)
			k.listening(b)
			before := dials.Load()
			fault(p)
			k.eventually("another try to connect", func() bool { return dials.Load() > before })
			p.Heal()
			k.looks(b, "a connection made anew")
			a.Notify(7)
			k.hears(b, 7)
		})
	}
}

// TestNotify_WithoutListen_Ignored: a store that does not listen wakes no other node, and a closing
// one sends its last message first.
func TestNotify_WithoutListen_Ignored(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.open("a"), k.open("b")
	k.listening(b)
	a.Notify(1)
	a.notices.close()
	if a.notifyConn.conn != nil {
		t.Error("it tells, and never listened")
	}
	c := k.open("c")
	k.listening(c)
	k.must(c.Release(k.ctx, nil))
	c.Close()
	k.looks(b, "a release")
	c.Notify(2) // nothing, after the end
}

func TestNotices(t *testing.T) {
	t.Parallel()
	many := make([]txn.SubmitterID, 2000)
	for i := range many {
		many[i] = 1_000_000
	}
	for _, c := range []struct {
		node string
		ids  []txn.SubmitterID
		all  bool
		want string
	}{
		{"a/1", []txn.SubmitterID{3, 4}, false, "a/1\n3 4"},
		{"a/1", nil, false, "a/1\nlook"},
		{"a/1", []txn.SubmitterID{3}, true, "a/1\nlook 3"},
		{"a\nb 7/1", []txn.SubmitterID{3}, false, "a\nb 7/1\n3"},
		{"a/1", many, false, "a/1\nlook"},
	} {
		text := notice(c.node, c.ids, c.all)
		if text != c.want {
			t.Errorf("%v became %q, want %q", c, text, c.want)
		}
		node, ids, all := parseNotice(text)
		if node != c.node || all != (c.all || len(c.ids) == 0 || len(c.ids) == len(many)) ||
			!all && !slices.Equal(ids, c.ids) {
			t.Errorf("%q read as %q %v %v", text, node, ids, all)
		}
	}
	for _, strange := range []string{"", "x", "a\n3 x", "a\n99999999999"} {
		if _, _, all := parseNotice(strange); !all {
			t.Errorf("%q is no reason to look", strange)
		}
	}
	long := channelOf(strings.Repeat("s", 60))
	if channelOf("t1") != "fencepost_t1" || len(long) > 63 ||
		long == channelOf(strings.Repeat("s", 59)) ||
		long == channelOf(strings.Repeat("s", 61)) {
		t.Errorf("channels %q %q", channelOf("t1"), long)
	}
}

// TestWoken_Overflow_ReportsAll: names that do not fit become a look.
func TestWoken_Overflow_ReportsAll(t *testing.T) {
	t.Parallel()
	s := &Store{wakes: newWakes()}
	for id := range txn.SubmitterID(maxWoken + 1) {
		s.wakes.wake(id)
	}
	if ids, _, look := s.TakeWoken(); len(ids) != maxWoken || !look {
		t.Fatalf("%d names, look %v", len(ids), look)
	}
	if ids, _, look := s.TakeWoken(); len(ids) != 0 || look {
		t.Fatalf("taken again: %d names, look %v", len(ids), look)
	}
}

// TestDial_EveryConnection_UsesIt: a configured dial function sees every connection.
func TestDial_EveryConnection_UsesIt(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	var dialled atomic.Int64
	s := k.open("dialler-"+k.db.Schema, func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			dialled.Add(1)
			return &countedConn{Conn: conn, open: &dialled}, nil
		}
	})
	k.listening(s)
	_, l := k.owned(s, "alice")
	_, err := s.Renew(k.ctx, []*Lease{l})
	k.must(err)
	_, err = s.Orphans(k.ctx, nil, 0, 1)
	k.must(err)
	s.Notify(1)
	k.eventually("all connections", func() bool {
		return value[int64](k,
			"SELECT count(DISTINCT application_name) FROM pg_stat_activity WHERE "+
				"application_name LIKE 'fencepost/%/' || $1",
			s.nodes) == 7
	})
	if n := value[int64](k, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE "+
		"'fencepost/%/' || $1", s.nodes); n != dialled.Load() {
		t.Fatalf("%d sessions, %d were dialled", n, dialled.Load())
	}
}

// countedConn is subtracted when it is closed. A server without TLS has a connection dialled twice.
type countedConn struct {
	net.Conn
	open   *atomic.Int64
	closed sync.Once
}

func (c *countedConn) Close() error {
	c.closed.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
