package store

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

func nodeIDs(nodes []NodeInfo) (ids []string) {
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

// TestHeartbeats: nodes see each other while they beat, by the database's clock alone.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.open("a"), k.open("b", func(c *Config) { c.LeaseDuration = time.Hour })
	first, err := a.Heartbeat(k.ctx, []txn.ChainID{1, 31337}, true)
	k.must(err)
	if len(first) != 1 || first[0].ID != "a/boot" ||
		!slices.Equal(first[0].Chains, []txn.ChainID{1, 31337}) ||
		!first[0].Accepting {
		t.Fatalf("alone: %+v", first)
	}
	if lives := first[0].ExpiresAt.Sub(first[0].StartedAt); lives < 5*time.Second ||
		lives > 7*time.Second {
		t.Fatalf("it lives for %v, and the lease duration is 6s", lives)
	}
	both, err := b.Heartbeat(k.ctx, nil, false)
	k.must(err)
	if got := nodeIDs(both); !slices.Equal(got, []string{"a/boot", "b/boot"}) ||
		both[1].Accepting ||
		len(both[1].Chains) != 0 {
		t.Fatalf("two nodes: %+v", both)
	}
	again, err := a.Heartbeat(k.ctx, []txn.ChainID{1}, false)
	k.must(err)
	if got := again[0]; len(again) != 2 || got.Accepting || len(got.Chains) != 1 ||
		!got.StartedAt.Equal(first[0].StartedAt) ||
		!got.ExpiresAt.After(first[0].ExpiresAt) {
		t.Fatalf("the second beat: %+v", again)
	}

	// A node without heartbeats is gone when its time is up, independent of its own clock; its row
	// stays for a day.
	k.exec("UPDATE node SET expires_at = clock_timestamp() WHERE node_id = 'b/boot'")
	alone, err := a.Heartbeat(k.ctx, []txn.ChainID{1}, true)
	k.must(err)
	listed, err := b.Nodes(k.ctx)
	k.must(err)
	if !slices.Equal(nodeIDs(alone), []string{"a/boot"}) ||
		!slices.Equal(nodeIDs(listed), []string{"a/boot"}) ||
		listed[0].Chains[0] != 1 {
		t.Fatalf("after a lapse: %+v, listed %+v", alone, listed)
	}
	k.exec("UPDATE node SET expires_at = clock_timestamp() - INTERVAL '25 hours'")
	_, err = a.Heartbeat(k.ctx, nil, true) // whose own row was as old
	k.must(err)
	if n := value[int](k, "SELECT count(*) FROM node"); n != 1 {
		t.Fatalf("%d rows, want that of the node that beats", n)
	}

	_, err = b.Heartbeat(k.ctx, nil, true)
	k.must(err)
	k.must(a.Leave(k.ctx))
	if listed, err = b.Nodes(k.ctx); err != nil ||
		!slices.Equal(nodeIDs(listed), []string{"b/boot"}) {
		t.Fatalf("after one left: %+v, %v", listed, err)
	}
}

// TestHeartbeat_Concurrent: no node waits for another, even where all of them have the same rows to
// forget.
func TestHeartbeat_Concurrent(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.exec(
		"INSERT INTO node (node_id, chain_ids, accepting, expires_at) SELECT 'old' || n, '{}', " +
			"TRUE, 'epoch' FROM generate_series(1, 50) n")
	var all sync.WaitGroup
	for _, name := range strings.Split("a b c d", " ") {
		s := k.open(name)
		all.Go(func() {
			for range 10 {
				if _, err := s.Heartbeat(k.ctx, nil, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := value[int](k, "SELECT count(*) FROM node"); n != 4 {
		t.Fatalf("%d rows, want 4", n)
	}
}

// TestHeartbeat_OwnersBusy_DoesNotWait: neither for callers that use up their connections, nor for
// owners.
func TestHeartbeat_OwnersBusy_DoesNotWait(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a", func(c *Config) { c.APIConns, c.OwnerConns = 1, 1 })
	api, err := s.api.Acquire(k.ctx)
	k.must(err)
	defer api.Release()
	owner, err := s.owner.Acquire(k.ctx)
	k.must(err)
	defer owner.Release()
	if nodes, err := s.Heartbeat(k.ctx, nil, true); err != nil || len(nodes) != 1 {
		t.Fatalf("%+v, %v", nodes, err)
	}
}

// TestLease_Before: an acquisition returns the previous owner and the time without an owner.
func TestLease_Before(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	a, b := k.open("a"), k.open("b")
	id := k.submitter(a, "alice")
	for _, bulk := range []bool{false, true} {
		acquire := func(s *Store) Before {
			if !bulk {
				return k.lease(s, id).Before()
			}
			leases, err := s.Acquire(k.ctx, []txn.SubmitterID{id})
			k.must(err)
			if len(leases) != 1 {
				t.Fatalf("acquired %+v", leases)
			}
			return leases[0].Before()
		}
		if !bulk {
			if got := acquire(a); got != (Before{Released: true}) { // as it is made
				t.Fatalf("the first acquisition: %+v", got)
			}
		}
		if got := acquire(a); got != (Before{Owner: "a/boot"}) {
			t.Fatalf("its own again: %+v", got)
		}
		k.exec("UPDATE submitter_lease SET expires_at = clock_timestamp() - INTERVAL '3 s'")
		if got := acquire(b); got.Owner != "a/boot" || got.Released || got.Gap < 3*time.Second ||
			got.Gap > 3*time.Second+patience {
			t.Fatalf("after a lapse: %+v", got)
		}
		k.must(
			b.Release(
				k.ctx,
				[]*Lease{
					{
						submitter: id,
						token: txn.Token(
							value[int64](k, "SELECT fencing_token FROM submitter_lease")),
					},
				},
			),
		)
		if got := acquire(a); got.Owner != "b/boot" || !got.Released || got.Gap < 0 ||
			got.Gap > patience {
			t.Fatalf("after a release: %+v", got)
		}
	}
}
