package server

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/stats"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/port"
)

const (
	// healthCalls is how many calls of health a connection may have under way: one for each service, and some more. Whoever asks for health is not known.
	healthCalls = 8
	// refusedStrangers is how many refused calls of a connection may have time left. A known caller, whom a busy node refuses, has more of them.
	refusedStrangers = 1000
)

// link is what a node holds for whoever is at the other end of one connection.
type link struct {
	close func() error // nil: of HTTP, whose answers have deadlines

	health atomic.Int64 // calls of health under way
	lists  atomic.Int64 // lists under way, or unread

	mu      sync.Mutex
	ended   bool
	cancel  context.CancelFunc // of the context that all calls of the connection are of
	parcels map[*parcel]struct{}
	unread  int         // bytes of them
	refused []time.Time // deadlines of calls that were refused: of some that have passed, and of all that are still to come
}

func (l *link) add(p *parcel) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	if l.parcels == nil {
		l.parcels = map[*parcel]struct{}{}
	}
	l.parcels[p] = struct{}{}
	l.unread += p.bytes
	return true
}

// remove tells whether the parcel was there.
func (l *link) remove(p *parcel) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.parcels[p]; !there {
		return false
	}
	delete(l.parcels, p)
	l.unread -= p.bytes
	return true
}

func (l *link) mayCall() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unread < unreadBytes
}

// refuse notes a call that is refused before it begins. The transport has made a timer for its deadline, and forgets to stop it: whoever is refused again and again,
// with deadlines that are far away, would fill the memory with them. With the connection they end. Of the call itself, and of all that came with it, nothing is kept.
func (l *link) refuse(ctx context.Context, most int) {
	until, has := ctx.Deadline()
	if !has {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	if l.refused = append(l.refused, until); len(l.refused) <= most {
		return
	}
	now := clock.Real{}.Now() // by which the transport sets its timers
	l.refused = slices.DeleteFunc(l.refused,
		func(until time.Time) bool { return until.Before(now) })
	if len(l.refused) > most && l.close != nil {
		go l.close() // which may wait for the peer; whoever asks holds a lock of the transport
	}
}

// stalled tells whether an answer of before then is still unread.
func (l *link) stalled(then time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.parcels {
		if p.since.Before(then) {
			return true
		}
	}
	return false
}

// begin takes over the end of the calls' context.
func (l *link) begin(cancel context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel = cancel
	if l.ended {
		cancel()
	}
}

// end gives back all that is held: of answers that a transport has when it ends it tells nothing.
func (l *link) end() {
	l.mu.Lock()
	parcels, cancel := l.parcels, l.cancel
	l.ended, l.parcels, l.unread, l.refused = true, nil, 0, nil
	l.mu.Unlock()
	for p := range parcels {
		p.seat.release()
	}
	if cancel != nil {
		cancel()
	}
}

type linkKey struct{}

// linkIn is that of the connection that a call comes over.
func linkIn(ctx context.Context) *link {
	if l, ok := ctx.Value(linkKey{}).(*link); ok {
		return l
	}
	return &link{}
}

// linked is a connection of gRPC.
type linked struct {
	*port.Conn
	link  *link
	links *links
}

// RemoteAddr leads to the link as well: it is all that the transport shows of a connection.
func (c *linked) RemoteAddr() net.Addr { return linkedAddr{c.Conn.RemoteAddr(), c.link} }

// Close ends all that is held for the connection.
func (c *linked) Close() error {
	c.links.remove(c.link)
	c.link.end()
	return c.Conn.Close()
}

type linkedAddr struct {
	net.Addr
	link *link
}

// links are those of gRPC's connections.
type links struct {
	mu  sync.Mutex
	all map[*link]struct{}
}

func (l *links) add(one *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*link]struct{}{}
	}
	l.all[one] = struct{}{}
}

func (l *links) remove(one *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, one)
}

// stalled are those with an answer of before then.
func (l *links) stalled(then time.Time) (found []*link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		if one.stalled(then) {
			found = append(found, one)
		}
	}
	return found
}

// linking is a listener whose connections have links.
type linking struct {
	net.Listener
	links *links
}

// Accept waits for a connection.
func (l linking) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	received, ok := conn.(*port.Conn)
	if err != nil || !ok {
		return conn, err
	}
	c := &linked{Conn: received, link: &link{}, links: l.links}
	c.link.close = c.Close
	l.links.add(c.link)
	return c, nil
}

// tagger gives the calls of a connection its link, and a context that ends with it.
type tagger struct{}

// TagConn marks the context of a connection.
func (tagger) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	from, ok := info.RemoteAddr.(linkedAddr)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, linkKey{}, from.link))
	from.link.begin(cancel)
	return ctx
}

// HandleConn is of no use here.
func (tagger) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC likewise.
func (tagger) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC likewise.
func (tagger) HandleRPC(context.Context, stats.RPCStats) {}

// endStalled ends the connections that do not read what they asked for, until ctx ends.
func (s *Server) endStalled(ctx context.Context) {
	for clock.Sleep(ctx, s.clock, s.limits.PingAfter) == nil {
		for _, one := range s.links.stalled(s.clock.Now().Add(-s.limits.wholeCall())) {
			s.log.Warn("a connection is ended: its caller does not read what it is answered",
				"after", s.limits.wholeCall())
			go one.close() // which may wait for the peer
		}
	}
}
