package store

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// pools is the view of a node on its pools. It is a hint: the statement that accepts a transaction
// checks that the account is an active member and accepts transactions. A node reads the members of
// a pool at most once per memberAge, in a twentieth of the time, and adds the transactions that it
// has accepted since, so that a create usually costs no read. Queues are counted up to countedLoad
// only; members with longer ones take turns.
type pools struct {
	mu   sync.Mutex
	refs map[string]PoolRef
	of   map[PoolID]*poolView
}

const (
	memberAge   = 100 * time.Millisecond
	countedLoad = 100
	maxPools    = 1 << 12 // remembered; all are forgotten then
)

// poolView is a node's view of the active members of a pool.
type poolView struct {
	at         time.Time     // zero: to be read
	age        time.Duration // after which it is read again
	candidates []*candidate
	members    int // active, whether or not they accept transactions
	turn       int64
}

type candidate struct {
	id       txn.SubmitterID
	load     int64 // transactions queued and in flight, and chosen since
	unfunded bool
	turn     int64 // of its last choice
}

func newPools() *pools {
	return &pools{refs: map[string]PoolRef{}, of: map[PoolID]*poolView{}}
}

func (p *pools) ref(name string) (PoolRef, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ref, known := p.refs[name]
	return ref, known
}

func (p *pools) keep(ref PoolRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refs) >= maxPools {
		p.refs = map[string]PoolRef{}
	}
	p.refs[ref.Name] = ref
}

func (p *pools) view(id PoolID) *poolView {
	v := p.of[id]
	if v == nil {
		if len(p.of) >= maxPools {
			p.of = map[PoolID]*poolView{}
		}
		v = &poolView{}
		p.of[id] = v
	}
	return v
}

// expire makes the next choice read the members.
func (p *pools) expire(id PoolID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.view(id).at = time.Time{}
}

// count returns the active members of a pool, and those that accept transactions.
func (p *pools) count(id PoolID) (members, accepting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.view(id)
	return v.members, len(v.candidates)
}

// stale returns the pools of jobs whose members are to be read; fresh: all.
func (p *pools) stale(jobs []*createJob, now time.Time, fresh bool) (ids []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[PoolID]bool{}
	for _, job := range jobs {
		id := job.intent.Pool.ID
		if seen[id] {
			continue
		}
		seen[id] = true
		if v := p.view(id); v.at.IsZero() || fresh || now.Sub(v.at) >= v.age {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

func (p *pools) learn(id PoolID, members []PoolMember, began, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.view(id)
	turns := make(map[txn.SubmitterID]int64, len(v.candidates))
	for _, c := range v.candidates {
		turns[c.id] = c.turn
	}
	v.at, v.age = now, max(memberAge, restShare*now.Sub(began))
	v.members, v.candidates = 0, nil
	for _, m := range members {
		if m.Status == MemberActive {
			v.members++
		}
		if m.Accepts() {
			v.candidates = append(v.candidates, &candidate{
				id: m.Submitter, load: m.Queued + m.InFlight, unfunded: m.Unfunded,
				turn: turns[m.Submitter],
			})
		}
	}
}

// choose gives each job an account, and returns the jobs for which there is none.
func (p *pools) choose(jobs []*createJob) (none []*createJob, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, job := range jobs {
		v := p.view(job.intent.Pool.ID)
		best := v.best(job)
		if best == nil {
			none = append(none, job)
			continue
		}
		best.load++
		job.account = best
		v.turn++
		best.turn = v.turn
		job.intent.Submitter = best.id
		if err := job.name(); err != nil {
			return nil, err
		}
	}
	return none, nil
}

// settle corrects the loads by the jobs that were not queued.
func (p *pools) settle(jobs []*createJob) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, job := range jobs {
		if job.account != nil && !job.created {
			job.account.load--
		}
		job.account = nil
	}
}

// next returns the account that a job would get; 0: none.
func (p *pools) next(job *createJob) txn.SubmitterID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if best := p.view(job.intent.Pool.ID).best(job); best != nil {
		return best.id
	}
	return 0
}

// best returns the account for a job: one that can pay, if there is any. Of those the one that the
// sticky key names, or the one with the shortest queue.
func (v *poolView) best(job *createJob) (best *candidate) {
	var bestRank uint64
	for _, c := range v.candidates {
		if slices.Contains(job.tried, c.id) {
			continue
		}
		rank := uint64(0)
		if job.intent.StickyKey != "" {
			rank = stickyRank(job.intent.StickyKey, c.id)
		}
		switch {
		case best == nil, best.unfunded && !c.unfunded:
		case c.unfunded && !best.unfunded:
			continue
		case job.intent.StickyKey != "":
			if rank <= bestRank {
				continue
			}
		case c.compare(best) >= 0:
			continue
		}
		best, bestRank = c, rank
	}
	return best
}

// stickyRank orders the accounts for a key (rendezvous hashing): all nodes agree, and a change of
// the members moves only the keys of the accounts that came or went.
func stickyRank(key string, id txn.SubmitterID) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(key), uint32(id)))
	return binary.BigEndian.Uint64(sum[:])
}
