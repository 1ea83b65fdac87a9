package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/txn"
)

// pool registers a pool with so many new members.
func (k *kit) pool(s *Store, name string, members int) (PoolRef, []txn.SubmitterID) {
	k.t.Helper()
	p, created, err := s.CreatePool(k.ctx, name, 31337)
	k.must(err)
	if !created {
		k.t.Fatal("the pool existed")
	}
	var ids []txn.SubmitterID
	for i := range members {
		id := k.submitter(s, fmt.Sprintf("%s-%02d", name, i))
		k.must(s.SetPoolMember(k.ctx, p.PoolRef, id, MemberActive, Ask{}))
		ids = append(ids, id)
	}
	return p.PoolRef, ids
}

func pooled(p PoolRef, request string) Intent {
	return Intent{Pool: p, RequestID: request, Payload: payload(request)}
}

// TestCreateTx_SamePoolKeyConcurrently_OneAccount: three nodes choose an account for the same keys
// at the same time, and the ledger keeps one of them.
func TestCreateTx_SamePoolKeyConcurrently_OneAccount(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	stores := []*Store{k.open("a"), k.open("b"), k.open("c")}
	p, _ := k.pool(stores[0], "pay", 5)
	var intents []Intent
	for i := range 40 {
		intents = append(intents, slices.Repeat([]Intent{pooled(p, fmt.Sprint("r", i))}, 6)...)
	}
	firsts := map[string]int{}
	ids := map[string]txn.TxID{}
	for _, r := range k.createAll(stores, intents) {
		k.must(r.err)
		key := r.info.RequestID
		if r.first {
			firsts[key]++
		}
		if was, has := ids[key]; has && was != r.info.ID {
			t.Fatalf("%s is %s and %s", key, was, r.info.ID)
		}
		ids[key] = r.info.ID
		if r.info.Pool != "pay" || r.info.Labels != nil {
			t.Fatalf("%s has pool %q and labels %v", key, r.info.Pool, r.info.Labels)
		}
	}
	for key, n := range firsts {
		if n != 1 {
			t.Errorf("%d calls created %s", n, key)
		}
	}
	if n := value[int](k, "SELECT count(*) FROM managed_tx"); n != 40 || len(firsts) != 40 {
		t.Fatalf("%d rows, %d created", n, len(firsts))
	}
}

func TestCreateTx_Pool_SpreadsOverMembers(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	p, ids := k.pool(s, "pay", 8)
	var intents []Intent
	for i := range 80 {
		intents = append(intents, pooled(p, fmt.Sprint("r", i)))
	}
	used := map[txn.SubmitterID]int{}
	for _, r := range s.CreateTxs(k.ctx, intents) {
		k.must(r.Err)
		used[r.Info.Submitter]++
	}
	for _, id := range ids {
		if used[id] != 10 {
			t.Errorf("submitter %d has %d transactions of 80, want 10", id, used[id])
		}
	}
	listed, err := s.Txs(k.ctx, TxFilter{Labels: map[string]string{PoolLabel: "pay"}, Limit: 100})
	k.must(err)
	if len(listed) != 80 {
		t.Errorf("the pool lists %d transactions", len(listed))
	}
}

// TestCreateTx_Pool_MemberChanges: a repeated request returns its transaction after each change of
// the member, and a new one goes to a member that accepts.
func TestCreateTx_Pool_MemberChanges(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(k *kit, s *Store, p PoolRef, id txn.SubmitterID){
		"drained": func(k *kit, s *Store, p PoolRef, id txn.SubmitterID) {
			k.must(s.SetPoolMember(k.ctx, p, id, MemberDraining, Ask{}))
		},
		"removed": func(k *kit, s *Store, p PoolRef, id txn.SubmitterID) {
			k.must(s.SetPoolMember(k.ctx, p, id, MemberRemoved, Ask{}))
		},
		"paused": func(k *kit, s *Store, p PoolRef, id txn.SubmitterID) {
			k.exec("UPDATE submitter SET status = 'PAUSED' WHERE submitter_id = $1", id)
		},
		"drained by another node": func(k *kit, s *Store, p PoolRef, id txn.SubmitterID) {
			k.exec("UPDATE pool_member SET status = 'DRAINING' WHERE submitter_id = $1", id)
		},
		"unfunded": func(k *kit, s *Store, p PoolRef, id txn.SubmitterID) {
			k.exec("UPDATE managed_tx SET sub_state = 'UNFUNDED', reason = 'INSUFFICIENT_FUNDS' "+
				"WHERE submitter_id = $1", id)
			s.pools.expire(p.ID) // known only once it is read again
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t)
			s := k.open("a")
			p, _ := k.pool(s, "pay", 2)
			first, _, err := s.CreateTx(k.ctx, pooled(p, "r1"))
			k.must(err)
			stop(k, s, p, first.Submitter)
			again, created, err := s.CreateTx(k.ctx, pooled(p, "r1"))
			k.must(err)
			if created || again.ID != first.ID {
				t.Errorf("the repeated request is %s, created %v, want %s", again.ID, created,
					first.ID)
			}
			for i := range 4 {
				other, created, err := s.CreateTx(k.ctx, pooled(p, fmt.Sprint("n", i)))
				k.must(err)
				if !created || other.Submitter == first.Submitter {
					t.Fatalf("a new request got submitter %d, created %v", other.Submitter, created)
				}
			}
		})
	}
}

// TestCreateTx_PoolMemberExternal_NotChosen: clients sign for it since it became a member.
func TestCreateTx_PoolMemberExternal_NotChosen(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	p, ids := k.pool(s, "pay", 1)
	external := txn.External
	k.must(s.SetPolicies(k.ctx, ids[0], PolicyChange{Mode: &external}))
	if _, _, err := s.CreateTx(k.ctx, pooled(p, "r1")); !errors.Is(err, ErrPoolStopped) {
		t.Errorf("created: %v", err)
	}
	if id, err := s.PoolAccount(k.ctx, p, ""); !errors.Is(err, ErrPoolStopped) {
		t.Errorf("would be created by %d: %v", id, err)
	}
	// a node whose view is old is refused by the statement, and reads the members again
	k.must(s.SetPoolMember(k.ctx, p, k.submitter(s, "bob"), MemberActive, Ask{}))
	if info, _, err := s.CreateTx(k.ctx, pooled(p, "r1")); err != nil || info.Submitter == ids[0] {
		t.Errorf("created by %d: %v", info.Submitter, err)
	}
}

func TestCreateTx_PoolWithoutMember_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	p, ids := k.pool(s, "pay", 2)
	first, _, err := s.CreateTx(k.ctx, pooled(p, "r1"))
	k.must(err)
	k.exec("UPDATE submitter SET status = 'PAUSED'")
	if _, _, err = s.CreateTx(k.ctx, pooled(p, "r2")); !errors.Is(err, ErrPoolStopped) {
		t.Errorf("with paused members: %v", err)
	}
	for _, id := range ids {
		k.must(s.SetPoolMember(k.ctx, p, id, MemberRemoved, Ask{Operator: "ops", Reason: "old"}))
	}
	if _, _, err = s.CreateTx(k.ctx, pooled(p, "r2")); !errors.Is(err, ErrPoolEmpty) {
		t.Errorf("without members: %v", err)
	}
	again, created, err := s.CreateTx(k.ctx, pooled(p, "r1"))
	k.must(err)
	if created || again.ID != first.ID {
		t.Errorf("the repeated request is %s, created %v", again.ID, created)
	}
	history, err := s.Commands(k.ctx, ids[0], 0, 10)
	k.must(err)
	if len(history) != 2 || history[0].Action != "POOL_REMOVED" || history[0].Operator != "ops" {
		t.Errorf("the history is %+v", history)
	}
}

// TestCreateTx_PoolKeyOfDirectTransaction_NotDoubled: the request_id is taken on one member, or on
// all.
func TestCreateTx_PoolKeyOfDirectTransaction_NotDoubled(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	p, ids := k.pool(s, "pay", 2)
	direct := func(id txn.SubmitterID, request string) {
		_, _, err := s.CreateTx(k.ctx,
			Intent{Submitter: id, RequestID: request, Payload: payload("direct")})
		k.must(err)
	}
	direct(ids[0], "r1")
	info, created, err := s.CreateTx(k.ctx, pooled(p, "r1"))
	k.must(err)
	if !created || info.Submitter != ids[1] {
		t.Fatalf("got submitter %d, created %v", info.Submitter, created)
	}
	direct(ids[0], "r2")
	direct(ids[1], "r2")
	if _, _, err = s.CreateTx(k.ctx, pooled(p, "r2")); !errors.Is(err, ErrKeyReused) {
		t.Fatalf("got %v, want %v", err, ErrKeyReused)
	}
}

func TestCreateTx_StickyKey_SameAccountOnAllNodes(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	stores := []*Store{k.open("a"), k.open("b")}
	p, ids := k.pool(stores[0], "pay", 6)
	of := map[string]txn.SubmitterID{}
	create := func(key, request string, s *Store) txn.SubmitterID {
		intent := pooled(p, request)
		intent.StickyKey = key
		info, _, err := s.CreateTx(k.ctx, intent)
		k.must(err)
		return info.Submitter
	}
	for i := range 60 {
		key := fmt.Sprint("user-", i%20)
		id := create(key, fmt.Sprint("r", i), stores[i%2])
		if was, has := of[key]; has && was != id {
			t.Fatalf("%s has submitters %d and %d", key, was, id)
		}
		of[key] = id
	}
	k.must(stores[0].SetPoolMember(k.ctx, p, ids[0], MemberDraining, Ask{}))
	for key, was := range of {
		if id := create(key, "again-"+key, stores[0]); id == ids[0] ||
			was != ids[0] && id != was {
			t.Errorf("%s moved from %d to %d, and only %d was drained", key, was, id, ids[0])
		}
	}
}

func TestSetPoolMember_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	p, ids := k.pool(s, "pay", 1)
	alice := k.submitter(s, "alice")
	err := s.SetPoolMember(k.ctx, p, alice, MemberDraining, Ask{})
	if !errors.Is(err, ErrPoolMember) {
		t.Errorf("drain of another account: %v", err)
	}
	k.must(s.SetPoolMember(k.ctx, p, ids[0], MemberDraining, Ask{}))
	k.must(s.SetPoolMember(k.ctx, p, ids[0], MemberDraining, Ask{}))
	other, _, err := s.CreatePool(k.ctx, "other", 2)
	k.must(err)
	err = s.SetPoolMember(k.ctx, other.PoolRef, alice, MemberActive, Ask{})
	if !errors.Is(err, ErrPoolChain) {
		t.Errorf("account of another chain: %v", err)
	}
	external := txn.External
	k.must(s.SetPolicies(k.ctx, alice, PolicyChange{Mode: &external}))
	err = s.SetPoolMember(k.ctx, p, alice, MemberActive, Ask{})
	if !errors.Is(err, ErrPoolMode) {
		t.Errorf("account whose clients sign: %v", err)
	}
	if _, _, err = s.CreatePool(k.ctx, "pay", 2); !errors.Is(err, ErrPoolExists) {
		t.Errorf("pool on another chain: %v", err)
	}
	if _, err = s.LookupPool(k.ctx, "none"); !errors.Is(err, ErrPoolNotFound) {
		t.Errorf("unknown pool: %v", err)
	}
}

// TestCreateTx_PoolUsageLost_CountedAgain: a fail-over lost the row in which the quota is counted.
func TestCreateTx_PoolUsageLost_CountedAgain(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	p, _ := k.pool(s, "pay", 1)
	for _, request := range []string{"first", "second"} {
		intent := pooled(p, request)
		intent.Caller, intent.Quota = "shop", txn.Quota{DayValue: uint256.NewInt(1 << 62)}
		for range 2 { // the first call after the loss may ask for a retry
			if _, _, err := s.CreateTx(k.ctx, intent); err == nil {
				break
			} else if !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
		}
		if n := value[int](k, "SELECT count(*) FROM managed_tx WHERE request_id = $1",
			request); n != 1 {
			t.Errorf("%s was not accepted", request)
		}
		k.exec("DELETE FROM caller_usage")
	}
}

// TestCreateTx_PoolOfTwenty_ThreeNodes: 1,000 requests, each on two of three nodes; midway one
// account is protected and one lacks funds.
func TestCreateTx_PoolOfTwenty_ThreeNodes(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	stores := []*Store{k.open("a"), k.open("b"), k.open("c")}
	p, ids := k.pool(stores[0], "pay", 20)
	protected, l := k.owned(stores[0], "pay-x")
	k.must(stores[0].SetPoolMember(k.ctx, p, protected, MemberActive, Ask{}))
	k.must(stores[0].SetPoolMember(k.ctx, p, ids[0], MemberRemoved, Ask{}))
	unfunded, ids := ids[1], ids[2:]
	half := func(from int) {
		var intents []Intent
		for i := range 500 {
			one := pooled(p, fmt.Sprint("r", from+i))
			intents = append(intents, one, one)
		}
		var created [3][]Intent
		for i, intent := range intents { // both copies of a request go to different nodes
			created[i%3] = append(created[i%3], intent)
		}
		var all sync.WaitGroup
		for n, s := range stores {
			all.Go(func() {
				for batch := range slices.Chunk(created[n], 25) {
					for _, r := range s.CreateTxs(k.ctx, batch) {
						if r.Err != nil {
							t.Error(r.Err)
						}
					}
				}
			})
		}
		all.Wait()
	}
	half(0)
	k.done(stores[0], l, txn.Change{Protect: &txn.Protection{Reason: txn.ReasonChainBehind,
		Evidence: "a test"}})
	k.exec(`UPDATE managed_tx SET sub_state = 'UNFUNDED', reason = 'INSUFFICIENT_FUNDS'
		WHERE submitter_id = $1`, unfunded)
	before := value[int](k, "SELECT count(*) FROM managed_tx WHERE submitter_id = $1", protected)
	for _, s := range stores {
		s.pools.expire(p.ID) // as after 100 ms
	}
	half(500)
	if n := value[int](k, "SELECT count(*) FROM managed_tx"); n != 1000 {
		t.Fatalf("%d transactions", n)
	}
	if n := value[int](k, "SELECT count(DISTINCT request_id) FROM managed_tx"); n != 1000 {
		t.Fatalf("%d requests", n)
	}
	used := func(id txn.SubmitterID) int {
		return value[int](k, "SELECT count(*) FROM managed_tx WHERE submitter_id = $1", id)
	}
	if used(protected) != before {
		t.Errorf("the protected account got %d more", used(protected)-before)
	}
	total, most := 0, 0
	least := 1000
	for _, id := range ids {
		n := used(id)
		total += n
		least, most = min(least, n), max(most, n)
	}
	mean := float64(total) / float64(len(ids))
	if float64(most) > 1.2*mean || float64(least) < 0.8*mean {
		t.Errorf("the accounts got %d to %d transactions, %.1f on average", least, most, mean)
	}
	t.Logf("%d to %d transactions, %.1f on average; protected %d, unfunded %d", least, most, mean,
		used(protected), used(unfunded))
}
