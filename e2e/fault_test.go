package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/internal/pgembed"
)

// faultKind is one way to hurt a cluster. strike does it, and returns when everything is as before.
type faultKind struct {
	name   string
	target func(*faultInjector) string // the victim; one fault at a time per victim
	strike func(s *faultInjector, target string)
	owner  bool // its target loses its leases
	alone  bool // it needs all nodes: no other fault meanwhile
	long   bool // only in runs of a minute or more
}

var faultKinds = []faultKind{
	{name: "killed", target: owner, strike: (*faultInjector).kill, owner: true},
	{name: "stopped", target: owner, strike: (*faultInjector).stopNode, owner: true},
	{name: "frozen", target: owner, strike: (*faultInjector).freeze, owner: true},
	{name: "cut from PostgreSQL", target: owner, strike: (*faultInjector).cutDatabase, owner: true},
	{name: "cut from the chain", target: owner, strike: (*faultInjector).cutChain},
	{name: "PostgreSQL restarted", target: always("database"),
		strike: (*faultInjector).restartDatabase},
	{name: "chain restarted", target: always("chain"), strike: (*faultInjector).restartChain},
	{name: "lossy fail-over", target: always("database"), strike: (*faultInjector).failOver,
		long: true},
	{name: "ledger moved", target: always("database"), strike: (*faultInjector).moveLedger,
		alone: true, long: true},
}

func owner(s *faultInjector) string { return s.owner() }

func always(target string) func(*faultInjector) string {
	return func(*faultInjector) string { return target }
}

// faultInjector is a series of faults, fixed by its seed as far as real processes allow.
type faultInjector struct {
	t        *testing.T
	cl       *cluster
	calls    *callers
	external *chaosClients
	postgres *pgembed.Server
	line     *pgproxy.Proxy // from all nodes to PostgreSQL
	random   *rand.Rand     // of the loop; strikes get numbers from it beforehand
	lease    time.Duration

	wg     sync.WaitGroup
	mu     sync.Mutex
	hit    map[string]bool // targets
	faults []fault

	operate    sync.Once
	wgOperator sync.WaitGroup
	over       chan struct{} // closed when no operator is needed any more
}

// fault is one that happened.
type fault struct {
	kind     faultKind
	target   string
	from, to time.Time
}

// run strikes until the time is over, and returns when all faults have ended. First every kind has
// a turn of its own; then they overlap at times.
func (s *faultInjector) run(d time.Duration) {
	end := time.Now().Add(d)
	kinds := slices.DeleteFunc(slices.Clone(faultKinds),
		func(k faultKind) bool { return k.long && d < time.Minute })
	first := slices.Clone(kinds)
	s.random.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	for (time.Now().Before(end) || len(first) > 0) && !s.t.Failed() {
		kind, alone := kinds[s.random.IntN(len(kinds))], s.random.IntN(2) == 0
		if len(first) > 0 {
			kind, first = first[0], first[1:]
			alone = true
		}
		if alone = alone || kind.alone; alone {
			s.wg.Wait()
		}
		s.wait(500*time.Millisecond, 2500*time.Millisecond)
		s.begin(kind)
		if alone && kind.owner {
			<-time.After(s.lease + time.Second) // without faults, its leases are taken over by then
		}
		if kind.long {
			s.wg.Wait()
		}
	}
	s.wg.Wait()
}

// wait waits for a random time without new faults.
func (s *faultInjector) wait(least, most time.Duration) {
	<-time.After(least + time.Duration(s.random.Int64N(int64(most-least))))
}

func (s *faultInjector) begin(k faultKind) {
	target := k.target(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hit[target] {
		return
	}
	s.hit[target] = true
	s.t.Logf("%s %s: %s", time.Now().Format("15:04:05.000"), target, k.name)
	s.wg.Go(func() {
		from := time.Now()
		k.strike(s, target)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.hit, target)
		s.faults = append(s.faults, fault{k, target, from, time.Now()})
	})
}

func (s *faultInjector) anyNode() string {
	return s.cl.members[s.random.IntN(len(s.cl.members))].name
}

// owner is a node that owns something.
func (s *faultInjector) owner() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	rows, err := s.cl.pool.Query(ctx,
		"SELECT DISTINCT split_part(owner_node, '/', 1) FROM submitter_lease WHERE expires_at > "+
			"clock_timestamp() ORDER BY 1")
	if err != nil {
		return s.anyNode() // the database is down just now
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		return s.anyNode()
	}
	return names[s.random.IntN(len(names))]
}

func (s *faultInjector) member(name string) *member {
	return s.cl.members[slices.IndexFunc(
		s.cl.members, func(m *member) bool { return m.name == name },
	)]
}

func (s *faultInjector) kill(target string) {
	m := s.member(target)
	m.proc.kill()
	m.start(s.t)
}

func (s *faultInjector) stopNode(target string) {
	m := s.member(target)
	m.proc.stop(s.t)
	m.start(s.t)
}

// freeze stops the process for longer than its lease.
func (s *faultInjector) freeze(target string) {
	m := s.member(target)
	m.freeze(s.t)
	<-time.After(s.lease * 3 / 2)
	m.awaitTakeover(s.t)
}

func (m *member) freeze(t *testing.T)        { m.signal(t, syscall.SIGSTOP) }
func (m *member) awaitTakeover(t *testing.T) { m.signal(t, syscall.SIGCONT) }

func (m *member) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := m.proc.cmd.Process.Signal(sig); err != nil {
		t.Errorf("node %s: %v: %v", m.name, sig, err)
	}
}

// cutDatabase leaves the node without PostgreSQL for longer than its lease.
func (s *faultInjector) cutDatabase(target string) {
	m := s.member(target)
	m.db.Refuse()
	m.db.CutAll()
	<-time.After(s.lease * 3 / 2)
	m.db.Heal()
}

func (s *faultInjector) cutChain(target string) {
	m := s.member(target)
	m.tap.cut.Store(true)
	<-time.After(s.lease)
	m.tap.cut.Store(false)
}

func (s *faultInjector) restartDatabase(string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.postgres.Restart(ctx); err != nil { // as -m immediate
		s.t.Error(err)
	}
}

func (s *faultInjector) restartChain(string) {
	if err := s.cl.chain.restart(); err != nil {
		s.t.Error(err)
	}
}

// disturbed reports whether another fault occurred in a time span.
func (s *faultInjector) disturbed(f fault, until time.Time) bool {
	return slices.ContainsFunc(s.faults,
		func(o fault) bool {
			return o.from != f.from && o.from.Before(until) &&
				o.to.After(f.from)
		})
}

// measured are takeover times after one kind of fault: of those that nothing else disturbed, and
// how long the submitters were without an owner then.
type measured struct {
	all, clean, orphaned []time.Duration
	faults               int
}

func (s *faultInjector) measure(c leaseHistory) map[string]*measured {
	result := map[string]*measured{}
	for _, f := range s.faults {
		m := result[f.kind.name]
		if m == nil {
			m = &measured{}
			result[f.kind.name] = m
		}
		m.faults++
		if !f.kind.owner {
			continue
		}
		for _, t := range c.takeovers(f.target, f.from) {
			m.all = append(m.all, t.took)
			if !s.disturbed(f, t.At) {
				m.clean = append(m.clean, t.took)
				m.orphaned = append(m.orphaned, t.timeWithoutOwner())
			}
		}
	}
	return result
}

// report is a table of faults and of the takeovers after them.
func report(m map[string]*measured) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-22s %6s %9s  %-21s %-21s %s\n", "fault", "times", "takeovers",
		"undisturbed: median", "max", "without an owner: median, max")
	ms := func(list []time.Duration) (middle, most string) {
		if len(list) == 0 {
			return "-", "-"
		}
		return median(
			list,
		).Round(time.Millisecond).String(), slices.Max(list).Round(time.Millisecond).String()
	}
	for _, k := range faultKinds {
		one := m[k.name]
		if one == nil {
			continue
		}
		middle, most := ms(one.clean)
		orphan, longest := ms(one.orphaned)
		fmt.Fprintf(&b, "%-22s %6d %9d  %-21s %-21s %s, %s\n", k.name, one.faults, len(one.all),
			middle, most, orphan, longest)
	}
	return b.String()
}
