package web

import (
	"net/http"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/limit"
)

// A client over HTTP/2 decides when it takes a response: with a window of zero, the stream of each
// response waits, and holds tens of kilobytes. Calls have slots for that. Rejected requests have
// none, so the number and the time of their unread responses are bounded here.

const (
	// maxStrangers bounds the unread responses to clients that are not authenticated, in the node.
	maxStrangers = 64
	// maxBusy bounds those to authenticated clients that found no slot.
	maxBusy = 256
	// maxWaiting bounds the responses of each kind that wait for room, and roomTime their wait:
	// clients that read make room within milliseconds.
	maxWaiting = 256
	roomTime   = time.Second
	// rejectedReadTime is how long a client may take to read the response to a rejected request.
	rejectedReadTime = 5 * time.Second
)

// rejections are the responses to rejected requests that clients have not read yet. Their room is
// divided among callers, so that one cannot take all of it. Clients that are not authenticated are
// divided by source address.
type rejections struct {
	unread, waiting *limit.Shares

	mu    sync.Mutex
	freed chan struct{} // closed, and replaced, when a response was read
}

func newRejections(room int64) *rejections {
	return &rejections{
		unread: limit.NewShares(room, nil), waiting: limit.NewShares(maxWaiting, nil),
		freed: make(chan struct{}),
	}
}

// respond writes a response to a caller, "" if it has no name, and returns when the client has read
// it. Without room it aborts the stream instead.
func (a *rejections) respond(w http.ResponseWriter, r *http.Request, caller string,
	write func()) {
	if r.ProtoMajor != 1 { // HTTP/1 has one response per connection
		key := limit.ConnOf(r.Context()).Key(caller)
		if !a.enter(r, key) {
			panic(http.ErrAbortHandler)
		}
		defer a.leave(key)
	}
	closeUnreadBody(w, r)
	// A connection that broke shows when something is written.
	_ = http.NewResponseController(w).SetWriteDeadline(clock.Real{}.Now().Add(rejectedReadTime))
	write()
	awaitRead(w, r)
}

// enter takes room, or reports that there is none.
func (a *rejections) enter(r *http.Request, key string) bool {
	if a.unread.Take(key, 1) == limit.Taken {
		return true
	}
	if a.waiting.Take(key, 1) != limit.Taken {
		return false
	}
	defer a.waiting.Add(key, -1)
	timer := clock.Real{}.NewTimer(roomTime)
	defer timer.Stop()
	for {
		freed := a.nextFreed()
		if a.unread.Take(key, 1) == limit.Taken {
			return true
		}
		select {
		case <-freed:
		case <-timer.C:
			return false
		case <-r.Context().Done():
			return false
		}
	}
}

func (a *rejections) nextFreed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.freed
}

func (a *rejections) leave(key string) {
	a.unread.Add(key, -1)
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.freed)
	a.freed = make(chan struct{})
}

// closeUnreadBody makes net/http send the response over HTTP/1 before the rest of the body is
// there.
func closeUnreadBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}

// awaitRead waits until the client has read the response, except the part in buffers of HTTP/1.
// Otherwise net/http would wait for the window of an HTTP/2 client after the handler has returned.
func awaitRead(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 {
		_ = http.NewResponseController(w).Flush() // a client that has gone reads nothing
	}
}
