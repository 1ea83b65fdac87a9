package store

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/txn"
)

func TestRegister(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	alice := Registration{
		Name:      "alice",
		Chain:     1,
		Address:   txn.Address{1},
		Signer:    "local",
		Mode:      txn.Strict,
		StartFrom: "chain",
	}
	info, created, err := s.Register(k.ctx, alice)
	k.must(err)
	if !created || info.Name != "alice" || info.Status != txn.Active || info.Limit != 1 ||
		info.Cursor != nil ||
		info.Lease.Live ||
		info.Lease.Token != 0 {
		t.Fatalf("created %v: %+v", created, info)
	}
	if again, created, err := s.Register(k.ctx, alice); err != nil || created ||
		again.ID != info.ID {
		t.Fatalf("the same again: %+v %v %v", again, created, err)
	}
	corrected := alice
	corrected.StartFrom = "17"
	if again, created, err := s.Register(k.ctx, corrected); err != nil || created ||
		again.StartFrom != "17" {
		t.Fatalf("a corrected start: %+v %v %v", again, created, err)
	}
	l := k.lease(s, info.ID)
	k.done(s, l, txn.Change{Init: &txn.CursorInit{Nonce: 17, BlockHash: hashOf(1)}})

	for want, tweak := range map[string]func(*Registration){
		"cannot be changed any more":   func(r *Registration) { r.StartFrom = "18" },
		"the name belongs to eip155:1": func(r *Registration) { r.Address = txn.Address{2} },
		"is registered as \"alice\"":   func(r *Registration) { r.Name = "bob" },
		"signer \"local\"": func(r *Registration) {
			r.StartFrom, r.Signer = "17",
				"other"
		},
	} {
		r := alice
		tweak(&r)
		if _, _, err := s.Register(k.ctx, r); !errors.Is(err, ErrSubmitterExists) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, tweak := range map[string]func(*Registration){
		"submitter_name_check":       func(r *Registration) { r.Name = "No Name" },
		"submitter_start_from_check": func(r *Registration) { r.StartFrom = "01" },
		"beyond 2^63-1":              func(r *Registration) { r.Chain = 1 << 63 },
	} {
		r := Registration{
			Name:      "carol",
			Chain:     1,
			Address:   txn.Address{3},
			Signer:    "local",
			Mode:      txn.Strict,
			StartFrom: "0",
		}
		tweak(&r)
		if _, _, err := s.Register(k.ctx, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestRegister_Concurrent: one of many wins, and every submitter has its lease row.
func TestRegister_Concurrent(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	stores := []*Store{k.open("a"), k.open("b")}
	firsts := make([]bool, 12)
	var all sync.WaitGroup
	for i := range firsts {
		all.Go(func() {
			var err error
			_, firsts[i], err = stores[i%2].Register(
				k.ctx,
				Registration{
					Name:      "alice",
					Chain:     1,
					Signer:    "s",
					Mode:      txn.Strict,
					StartFrom: "0",
				},
			)
			if err == nil {
				err = stores[i%2].RegisterChain(k.ctx, 1, hashOf(1))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	n := 0
	for _, first := range firsts {
		if first {
			n++
		}
	}
	if leases := value[int](k, "SELECT count(*) FROM submitter_lease"); n != 1 || leases != 1 {
		t.Fatalf("%d registrations won, %d leases", n, leases)
	}
}

func TestRegisterChain_OtherGenesis_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	k.must(s.RegisterChain(k.ctx, 5, hashOf("genesis")))
	k.must(s.RegisterChain(k.ctx, 5, hashOf("genesis")))
	if err := s.RegisterChain(k.ctx, 5, hashOf("other")); err == nil ||
		!strings.Contains(err.Error(), "another chain") {
		t.Fatalf("another chain behind the same id: %v", err)
	}
	if err := s.RegisterChain(k.ctx, 0, hashOf("genesis")); err == nil {
		t.Fatal("chain 0 is registered")
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	if _, err := s.Lookup(k.ctx, "alice"); !errors.Is(err, ErrSubmitterNotFound) {
		t.Fatalf("%v", err)
	}
	id := k.submitter(s, "alice") // a miss is not cached
	info, err := s.Submitter(k.ctx, id)
	k.must(err)
	account := txn.AccountID(info.Chain, info.Address)
	for _, text := range []string{"alice", account, "eip155:31337:" +
		strings.ToLower(account[len("eip155:31337:"):])} {
		for range 2 {
			if got, err := s.Lookup(k.ctx, text); err != nil || got != id {
				t.Errorf("%s: %d %v", text, got, err)
			}
		}
	}
	for _, text := range []string{"bob", "eip155:1:0x0000000000000000000000000000000000000001",
		"eip155:x"} {
		if _, err := s.Lookup(k.ctx, text); !errors.Is(err, ErrSubmitterNotFound) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := s.Submitter(k.ctx, 4711); !errors.Is(err, ErrSubmitterNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := s.Submitter(k.ctx, 0); !errors.Is(err, ErrSubmitterNotFound) {
		t.Errorf("submitter 0 is %v", err)
	}
	k.submitter(s, "bob")
	page, err := s.Submitters(k.ctx, nil, "alice", 10)
	k.must(err)
	if len(page) != 1 || page[0].Name != "bob" {
		t.Errorf("after alice: %+v", page)
	}
}

// TestQueue_CreationOrder: transactions are sent in the order of their answers, and a queue
// position that commits late is not skipped for ever (E15).
func TestQueue_CreationOrder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.open("a"), k.open("b")
	id := k.submitter(a, "alice")
	var order []txn.TxID
	for n, s := range []*Store{a, b, b, a, b} {
		order = append(order, k.queue(s, id, string(rune('z'-n))).ID)
	}
	slow := k.begin(id, "slow")
	order = append(order, k.queue(b, id, "quick").ID)
	heads := func(n int) (ids []txn.TxID) {
		t.Helper()
		boxes, err := a.Inboxes(k.ctx, []txn.SubmitterID{id}, n)
		k.must(err)
		for _, tx := range boxes[id].Queue {
			ids = append(ids, tx.ID)
		}
		return ids
	}
	if got := heads(10); !slices.Equal(got, order) {
		t.Fatalf("queue %v, want %v", got, order)
	}
	k.must(slow.Commit(k.ctx))
	late, err := a.TxByRequest(k.ctx, id, "slow")
	k.must(err)
	if got := heads(6); !slices.Equal(got, append(slices.Clone(order[:5]), late.ID)) {
		t.Fatalf("queue %v, want %v at its place", got, late.ID)
	}
}

// TestAcquire_First races: one node gets a lease that had no owner (E6).
func TestAcquire_First(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	id := k.submitter(k.open("registrar"), "alice")
	leases := make([]*Lease, 6)
	var all sync.WaitGroup
	for i := range leases {
		s := k.open(string(rune('a' + i)))
		all.Go(func() {
			var err error
			if leases[i], err = s.AcquireOne(k.ctx, id); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	leases = slices.DeleteFunc(leases, func(l *Lease) bool { return l == nil })
	if len(leases) != 1 || leases[0].Token() != 1 {
		t.Fatalf("%d nodes hold the lease", len(leases))
	}
}

// TestPools_APIBusy_OwnerServed: with every connection of the callers in use, owners work on (H65).
func TestPools_APIBusy_OwnerServed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", func(c *Config) { c.APIConns, c.OwnerConns = 2, 1 })
	id, l := k.owned(s, "alice")
	tx := k.queue(s, id, "r1")
	for range 2 {
		conn, err := s.api.Acquire(k.ctx)
		k.must(err)
		defer conn.Release()
	}
	owner, err := s.owner.Acquire(k.ctx)
	k.must(err)
	if renewed, err := s.Renew(k.ctx, []*Lease{l}); err != nil || len(renewed) != 1 {
		t.Fatalf("renewed %v, %v", renewed, err)
	}
	k.done(s, l, take(tx, 0))
	owner.Release()
	_, err = s.Load(k.ctx, l)
	k.must(err)
	k.lease(s, id)
}

// TestSessions: the server itself keeps the limits, and nothing is answered before it is on disk.
func TestSessions(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	join := map[bool]string{true: "&", false: "?"}[strings.Contains(k.db.URL, "?")]
	s := k.open("a", func(c *Config) {
		c.URL += join +
			"synchronous_commit=off&default_transaction_isolation=serializable&statement_timeout=0"
		c.LeaseDuration, c.StatementTimeout = 12*time.Second, 2*time.Second
	})
	s.lanes[0].conn.mu.Lock()
	defer s.lanes[0].conn.mu.Unlock()
	commit, err := s.lanes[0].conn.connected(k.ctx)
	k.must(err)
	for setting, want := range map[string]string{
		"statement_timeout": "2s", "lock_timeout": "1500ms",
		"idle_in_transaction_session_timeout": "2s", "synchronous_commit": "on",
		"default_transaction_isolation": "read committed", "application_name": "fencepost/commit/a",
		"enable_seqscan": "off",
	} {
		var got string
		k.must(commit.QueryRow(k.ctx, "SELECT current_setting($1)", setting).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s", setting, got, want)
		}
	}
	for role, want := range map[string][2]string{"api": {"10s", "2s"}, "owner": {"12s", "2s"},
		"taker": {"12s", "8s"}} {
		pool := map[string]*pgxpool.Pool{"api": s.api, "owner": s.owner, "taker": s.taker}[role]
		var got [2]string
		k.must(
			pool.QueryRow(k.ctx,
				"SELECT current_setting('statement_timeout'), "+
					"current_setting('lock_timeout')").Scan(
				&got[0],
				&got[1],
			),
		)
		if got != want {
			t.Errorf("%s has limits %v, want %v", role, got, want)
		}
	}
}
