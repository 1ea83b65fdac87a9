package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
)

// TestFence_FrozenOwner_CannotWrite freezes a process in the middle of each kind of commit (see
// commitCases) until another has taken over and made progress, and then lets it continue. It
// freezes before the server has the commit, between execution and commit, and after the commit with
// the reply still in transit.
func TestFence_FrozenOwner_CannotWrite(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]struct {
		step   byte
		action pgproxy.Action
		done   bool // the commit that is held is done, under the old token
	}{
		"before the server has it":      {'B', pgproxy.HoldBefore, false},
		"between execution and end":     {'E', pgproxy.HoldAfter, false},
		"while the answer is under way": {'B', pgproxy.HoldReply, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := embedded(t, 0, len(commitCases))
			o := nodeOptions{
				confirmations: 3,
				release:       2,
				poll:          50 * time.Millisecond,
				lease:         "duration: 1600ms, renew_interval: 500ms, sweep_interval: 100ms",
			}
			cl := prepareCluster(t, c, 2, o, freshDatabase(t))
			for _, m := range cl.members {
				m.edit(t, "resubmit: {interval: 5s, max_attempts: 20}",
					"resubmit: {interval: 200ms, max_attempts: 25}, finality: {tell_blocks: true}")
				m.edit(t, "node:", "retention: {raw_tx: keep}\nnode:") // the successor would erase
			}
			cl.startAll(t)
			for i, kind := range commitCases {
				f := &frozen{cl: cl, kind: kind, key: i, submitter: cl.members[0].names[i]}
				t.Run(kind.name, func(t *testing.T) {
					f.t = t
					f.run(hold.step, hold.action, hold.done)
				})
			}
			cl.verifySendings(t)
			cl.verifyFence(t)
			cl.stopAll(t)
		})
	}
}

// frozen is one such story, of one submitter.
type frozen struct {
	t         *testing.T
	cl        *cluster
	kind      commitCase
	key       int
	submitter string
	id        int
	tx        string
	token     atomic.Int64 // under which the held commit is
}

func (f *frozen) run(step byte, action pgproxy.Action, done bool) {
	f.scan(&f.id, "SELECT submitter_id FROM submitter WHERE name = $1", f.submitter)
	if f.kind.blocks >= 0 {
		f.create()
		f.await("the transaction is sent", "state = 'TRACKING'")
		f.mineAndFollow(f.kind.blocks)
	}
	f.have(f.kind.before, f.cl.members[0])
	victim, other, rule := f.catch(step, action)
	victim.freeze(f.t)
	f.t.Cleanup(func() {
		if f.t.Failed() { // the other stories need the node
			victim.awaitTakeover(f.t)
		}
	})
	f.have(f.kind.meanwhile, other)
	f.awaitTakeover(other)
	before := f.dump()
	rule.Release()
	f.closed(rule.Settled(), "the held commit has its answer")
	victim.awaitTakeover(f.t)
	f.wakesUp(victim)
	if after := f.dump(); after != before {
		f.t.Errorf("the frozen owner wrote:\n%s", difference(before, after))
	}
	f.heldWas(done)
	f.finish(victim)
}

// have has a story's own part done through a node, if it has one.
func (f *frozen) have(part func(*frozen, *member), m *member) {
	f.t.Helper()
	if part != nil {
		part(f, m)
	}
}

// catch brings the commit about and holds it, whichever node makes it.
func (f *frozen) catch(step byte,
	action pgproxy.Action) (victim, other *member, rule *pgproxy.Rule) {
	f.t.Helper()
	match := func(m pgproxy.Message) bool {
		if !fencedCommit(m, step) {
			return false
		}
		token := (fenced{m}).token(f.id)
		hit := token > 0 && f.kind.match(fenced{m})
		if hit {
			f.token.Store(token)
		}
		return hit
	}
	a, b := f.cl.members[0], f.cl.members[1]
	onA, onB := a.db.On(match, action), b.db.On(match, action)
	f.kind.trigger(f)
	victim = a
	other = b
	rule = onA
	unused := onB
	block, limit := time.NewTicker(200*time.Millisecond), time.After(40*time.Second)
	defer block.Stop()
	for seen := false; !seen; {
		select {
		case <-onA.Fired():
			seen = true
		case <-onB.Fired():
			victim = b
			other = a
			rule = onB
			unused = onA
			seen = true
		case <-block.C:
			if f.kind.mines {
				f.mine()
			}
		case <-limit:
			f.t.Fatal("the commit was not seen")
		}
	}
	if !other.db.Withdraw(unused) {
		f.t.Fatal("both nodes made the commit")
	}
	return victim, other, rule
}

// awaitTakeover waits until the other node has taken over and finished the work.
func (f *frozen) awaitTakeover(other *member) {
	f.t.Helper()
	eventually(f.t, 20*time.Second, "the other node takes over", func() error {
		return f.holds(
			"SELECT owner_node LIKE $2 || '/%' AND fencing_token > $3 FROM submitter_lease WHERE "+
				"submitter_id = $1",
			other.name, f.token.Load())
	})
	f.end()
	f.have(f.kind.undo, other)
	eventually(f.t, 10*time.Second, "no command is left", func() error {
		return f.holds(
			"SELECT count(*) = 0 FROM submitter_command WHERE submitter_id = $1 AND applied_at " +
				"IS NULL")
	})
}

// end mines until the newest transaction is final.
func (f *frozen) end() {
	f.t.Helper()
	eventually(f.t, 20*time.Second, "the transaction is final", func() error {
		f.mine()
		return f.holds(
			"SELECT count(*) > 0 AND bool_and(terminal_at IS NOT NULL) FROM managed_tx WHERE " +
				"submitter_id = $1")
	})
}

// wakesUp waits until the process that was frozen has noticed that its lease is gone, and works.
func (f *frozen) wakesUp(victim *member) {
	f.t.Helper()
	lost := regexp.MustCompile(
		fmt.Sprintf(
			`msg="(submitter lost|lease lost|commit fenced)".*submitter_id=%d `+
				`fencing_token=%d\b`,
			f.id, f.token.Load()),
	)
	eventually(f.t, 20*time.Second, "the frozen node notices", func() error {
		log, err := os.ReadFile(filepath.Join(victim.dir, "node.log"))
		if err == nil && !lost.Match(log) {
			err = errNotYet
		}
		return err
	})
	eventually(f.t, 20*time.Second, "the frozen node answers", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), tryFor)
		defer cancel()
		_, err := victim.GetSubmitter(ctx, &fencepostv1.GetSubmitterRequest{Submitter: f.submitter})
		return err
	})
}

// heldWas checks that the rows of the held commit exist under the token of the frozen owner if, and
// only if, the server had committed before the takeover.
func (f *frozen) heldWas(done bool) {
	f.t.Helper()
	f.under(done, "tx_event", string(f.kind.event))
	f.under(done, "submitter_command", string(f.kind.command))
}

func (f *frozen) under(done bool, table, kind string) {
	f.t.Helper()
	if kind == "" {
		return
	}
	var tokens []int64
	f.scan(&tokens,
		"SELECT coalesce(array_agg(fencing_token), '{}') FROM "+
			""+table+" WHERE submitter_id = $1 AND kind = $2",
		f.id, kind)
	if slices.Contains(tokens, f.token.Load()) != done {
		f.t.Errorf("%s is there under the tokens %v; the frozen owner's is %d", kind, tokens,
			f.token.Load())
	}
}

// finish sends one more through the node that was frozen, and holds all to the laws: each number
// from 0 on is a transaction's or a recorded gap.
func (f *frozen) finish(victim *member) {
	f.t.Helper()
	f.have(f.kind.after, victim)
	last := victim.node.create(f.t, f.submitter, "after", transfer).GetTxId()
	f.end()
	var nonces []int64
	f.scan(&nonces, `SELECT array_agg(nonce ORDER BY nonce) FROM (
		SELECT nonce FROM managed_tx WHERE submitter_id = $1 AND nonce IS NOT NULL
		 UNION ALL SELECT generate_series(first_nonce, last_nonce) FROM nonce_gap
		   WHERE submitter_id = $1) used`, f.id)
	for i, n := range nonces {
		if n != int64(i) {
			f.t.Fatalf("the nonces %v are used, or recorded as gaps", nonces)
		}
	}
	if err := f.holds(
		"SELECT state = 'CONFIRMED' AND nonce = $3 FROM managed_tx WHERE submitter_id = $1 AND "+
			"tx_id = $2",
		last, len(nonces)-1,
	); err != nil {
		f.t.Errorf("the last one, of the nonces %v: %v", nonces, err)
	}
}

func (f *frozen) create() {
	payload := transfer
	if f.kind.payload != nil {
		payload = f.kind.payload(f)
	}
	f.tx = f.cl.create(f.t, f.submitter, "first", payload).GetTxId()
}

// mineAndFollow mines block after block, each once the ledger has caught up with the previous one.
func (f *frozen) mineAndFollow(blocks int) {
	f.t.Helper()
	for i, seen := range []string{
		"sub_state = 'INCLUDED'", "released_at IS NOT NULL", "TRUE", "terminal_at IS NOT NULL",
	}[:blocks] {
		f.mine()
		f.await(fmt.Sprintf("block %d is seen", i+1), seen)
	}
}

// call asks through the node that does not own the submitter: a call that is under way on the other
// would go on when that wakes up.
func (f *frozen) call(call func(context.Context, *member)) {
	f.t.Helper()
	var owner string
	f.scan(&owner,
		"SELECT split_part(owner_node, '/', 1) FROM submitter_lease WHERE submitter_id = $1", f.id)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	f.t.Cleanup(cancel)
	for _, m := range f.cl.members {
		if m.name != owner {
			go call(ctx, m)
		}
	}
}

func (f *frozen) await(what, condition string) {
	f.t.Helper()
	eventually(f.t, 20*time.Second, what, func() error {
		return f.holds("SELECT " + condition + " FROM managed_tx WHERE submitter_id = $1")
	})
}

// holds reports whether a query about the submitter, $1, returns true.
func (f *frozen) holds(query string, args ...any) error {
	var yes bool
	err := f.cl.pool.QueryRow(
		context.Background(),
		query,
		append([]any{f.id}, args...)...).Scan(
		&yes,
	)
	if err == nil && !yes {
		err = errNotYet
	}
	return err
}

func (f *frozen) scan(into any, query string, args ...any) {
	f.t.Helper()
	if err := f.cl.pool.QueryRow(context.Background(), query, args...).Scan(into); err != nil {
		f.t.Fatal(err)
	}
}

func (f *frozen) closed(c <-chan struct{}, what string) {
	f.t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		f.t.Fatalf("not within 20 s: %s", what)
	}
}

// dump is everything that the ledger holds of the submitter, leases aside.
func (f *frozen) dump() string {
	f.t.Helper()
	var all strings.Builder
	for _, table := range []string{
		"submitter", "submitter_nonce_cursor", "managed_tx", "tx_attempt", "tx_event",
		"submitter_command", "nonce_gap",
	} {
		var rows string
		f.scan(&rows,
			"SELECT coalesce(string_agg(t::TEXT, E'\\n' ORDER BY t::TEXT), '') FROM "+
				""+table+" t WHERE submitter_id = $1",
			f.id)
		fmt.Fprintf(&all, "%s\n%s\n", table, rows)
	}
	return all.String()
}

// difference lists the lines that only one of two texts has.
func difference(before, after string) string {
	lines := map[string]int{}
	for _, l := range strings.Split(before, "\n") {
		lines[l]--
	}
	for _, l := range strings.Split(after, "\n") {
		lines[l]++
	}
	maps.DeleteFunc(lines, func(_ string, n int) bool { return n == 0 })
	var b strings.Builder
	for _, l := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&b, "%+d %s\n", lines[l], l)
	}
	return b.String()
}
