package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
)

// TestBalance_TwoThousandSubmitters has three nodes of mode worker-queue share many busy
// submitters. A node that dies, comes back or stops moves its own share and nothing else, and
// renewal costs a node one statement per tick however many leases it has.
func TestBalance_TwoThousandSubmitters(t *testing.T) {
	t.Parallel()
	const submitters = 2000
	c := embedded(t, 0, submitters)
	lease := "mode: worker-queue, duration: 10s, renew_interval: 1s"
	cl := prepareCluster(t, c, 3,
		nodeOptions{confirmations: 2, poll: 250 * time.Millisecond, lease: lease}, freshDatabase(t))
	renewals := cl.countRenewals()
	cl.startAll(t)
	cl.queueOneEach(t)
	cl.settles(t, submitters, "a", "b", "c")
	renewals.verify(t, 5)

	victim := cl.members[2]
	first := cl.holders(t) // as late as possible: earlier moves are not due to the death of c
	victim.proc.kill()
	second := cl.settles(t, submitters, "a", "b")
	moved(t, first, second, "c died", func(was, is holder) bool { return was.name == "c" })

	victim.start(t)
	third := cl.settles(t, submitters, "a", "b", "c")
	moved(t, second, third, "c is back", func(was, is holder) bool { return is.name == "c" })

	victim.proc.stop(t)
	fourth := cl.settles(t, submitters, "a", "b")
	moved(t, third, fourth, "c stopped", func(was, is holder) bool { return was.name == "c" })
	cl.verifyRest(t, submitters)
}

// queueOneEach queues one transaction per submitter; no block is mined, so the work stays.
func (cl *cluster) queueOneEach(t *testing.T) {
	t.Helper()
	names := make(chan string)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for name := range names {
				cl.create(t, name, "one", transfer)
			}
		})
	}
	for _, name := range cl.members[0].names {
		names <- name
	}
	close(names)
	wg.Wait()
}

// holder is who holds a lease, and under which token.
type holder struct {
	name  string // of the node
	token int64
}

// settleLimit is longer than the thirty leases for which a node keeps submitters it took from
// another, as can happen on a busy machine.
const settleLimit = 6 * time.Minute

// settledFor is how long nothing must move before the placement counts as settled. Nodes announce
// themselves each second, and transfer in batches until then.
const settledFor = 4 * time.Second

// settles waits until every submitter is owned by one of these nodes, each has its share, 15 % more
// or less, and nothing moves any more.
func (cl *cluster) settles(t *testing.T, submitters int, names ...string) map[int]holder {
	t.Helper()
	begun := time.Now()
	since := begun // when the leases were first seen as they are
	var last map[int]holder
	var least, most float64
	eventually(
		t,
		settleLimit,
		"leases are in balance between "+strings.Join(names, ", "),
		func() error {
			before := last
			last = cl.holders(t)
			counts := map[string]int{}
			for _, h := range last {
				counts[h.name]++
			}
			share := float64(submitters) / float64(len(names))
			least, most = 2, 0
			for _, name := range names {
				least, most = min(least, float64(counts[name])/share), max(most,
					float64(counts[name])/share)
			}
			if len(last) != submitters || len(counts) != len(names) || least < 0.85 || most > 1.15 {
				return fmt.Errorf("%d owned: %v", len(last), counts)
			}
			if !maps.Equal(before, last) {
				since = time.Now()
			}
			if time.Since(since) < settledFor {
				return fmt.Errorf("still moving: %v", counts)
			}
			return nil
		},
	)
	t.Logf("in balance between %s after %s: %.1f %% to %.1f %% of an equal share",
		strings.Join(names, ", "), since.Sub(begun).Round(time.Millisecond), 100*least, 100*most)
	return last
}

func (cl *cluster) holders(t *testing.T) map[int]holder {
	t.Helper()
	rows, err := cl.pool.Query(context.Background(),
		"SELECT submitter_id, split_part(owner_node, '/', 1), fencing_token FROM submitter_lease "+
			"WHERE expires_at > clock_timestamp()")
	if err != nil {
		t.Fatal(err)
	}
	held := map[int]holder{}
	var id int
	var h holder
	if _, err := pgx.ForEachRow(
		rows, []any{&id, &h.name, &h.token}, func() error { held[id] = h; return nil },
	); err != nil {
		t.Fatal(err)
	}
	return held
}

// moved requires every submitter for which may returns false to keep its lease between two moments.
// It tolerates such moves of 5% of the submitters: a busy machine may let a lease or a node's
// heartbeat expire, or leave a commit in doubt. Wrong placement would move a third of them.
func moved(t *testing.T, before, after map[int]holder, why string, may func(was, is holder) bool) {
	t.Helper()
	count, strays := 0, []string{}
	for id, is := range after {
		was := before[id]
		if was == is {
			continue
		}
		count++
		if !may(was, is) {
			strays = append(strays, fmt.Sprintf("%d from %v to %v", id, was, is))
		}
	}
	t.Logf("%s: %d of %d submitters moved, %d of them need not have", why, count, len(after),
		len(strays))
	if len(strays) > len(after)/20 {
		t.Errorf("%s: %d submitters moved that need not have, such as %s", why, len(strays),
			strays[0])
	}
}

// renewals counts the renewals of each node on the wire.
type renewals map[string]*atomic.Int64

func (cl *cluster) countRenewals() renewals {
	r := renewals{}
	for _, m := range cl.members {
		n := &atomic.Int64{}
		r[m.name] = n
		renews := pgproxy.Running("name: RenewLeases ")
		m.db.On(func(m pgproxy.Message) bool {
			if renews(m) {
				n.Add(1)
			}
			return false
		}, pgproxy.LoseReply)
	}
	return r
}

// verify waits until each node has renewed its leases so many times, and requires that no node
// renews more often than once per second.
func (r renewals) verify(t *testing.T, times int) {
	t.Helper()
	before := map[string]int64{}
	for name, n := range r {
		before[name] = n.Load()
	}
	begun := time.Now()
	eventually(t, time.Minute, "every node renews", func() error {
		for name, n := range r {
			if got := n.Load() - before[name]; got < int64(times) {
				return fmt.Errorf("node %s renewed %d times", name, got)
			}
		}
		return nil
	})
	for name, n := range r {
		got, most := n.Load()-before[name], int64(time.Since(begun)/time.Second)+2
		if got > most {
			t.Errorf("node %s renewed %d times, limit %d", name, got, most)
		}
	}
}

// verifyRest makes blocks until all is final.
func (cl *cluster) verifyRest(t *testing.T, total int) {
	t.Helper()
	eventually(t, time.Minute, "everything is final", func() error {
		var hash string
		if err := cl.chain.Client.Client().CallContext(
			context.Background(), &hash, "dev_mine", 1,
		); err != nil {
			return err
		}
		return cl.members[0].atLeast("terminal_at IS NOT NULL", total)
	})
	verifyRows(t, cl.pool)
	verifyMined(t, cl.pool, cl.chain, senders(cl.chain), total)
	cl.verifySendings(t)
	var tokens []int64
	for _, h := range cl.holders(t) {
		tokens = append(tokens, h.token)
	}
	if len(tokens) > 0 {
		t.Logf("the highest token of a submitter is %d", slices.Max(tokens))
	}
}
