package chain

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/fencepost/fencepost/txn"
)

// reply configures an endpoint's response to a send.
type reply func(*fakeNode)

func answers(send func(hexutil.Bytes) (common.Hash, error)) reply {
	return func(n *fakeNode) { n.set(func(n *fakeNode) { n.send = send }) }
}

func words(code int, msg string) reply { return answers(says(code, msg)) }

func overHTTP(status int, header map[string]string, body string) reply {
	return func(n *fakeNode) {
		n.onSend(func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
}

func cut(n *fakeNode) {
	n.onSend(func(w http.ResponseWriter, r *http.Request) { cutConnection(w, r) })
}

// takenThenCut accepts the bytes and loses the reply.
func takenThenCut(n *fakeNode) {
	n.set(func(n *fakeNode) {
		n.known = func(hash common.Hash) (map[string]any, error) {
			return map[string]any{"hash": hash}, nil
		}
	})
	cut(n)
}

// TestSend_ResponsesByRank is the table of outcomes for the responses of a chain's endpoints, in
// order.
func TestSend_ResponsesByRank(t *testing.T) {
	t.Parallel()
	var (
		accepts = answers(accept)
		known   = words(-32000, "already known")
		low     = words(-32000, "nonce too low: next nonce 5, tx nonce 4")
		outbid  = words(-32000, "replacement transaction underpriced")
		gap     = words(-32000, "nonce too high: tx nonce 9, gapped nonce 4")
		full    = words(-32000, "txpool is full")
		cheap   = words(-32000, "transaction underpriced")
		poor    = words(-32000, "insufficient funds for gas * price + value")
		invalid = words(-32000, "intrinsic gas too low")
		revert  = words(3, "execution reverted")
		gibber  = words(-32000, "the moon is in the wrong house")
		closing = words(-32000, "server shutting down")
		shut    = words(-32601, "the method eth_sendRawTransaction does not exist/is not available")
		limited = words(-32005, "rate limited, try again in 9s")
		sooner  = words(-32005, "rate limited, try again in 4s")
		zero    = answers(func(hexutil.Bytes) (common.Hash, error) { return common.Hash{}, nil })
		another = answers(
			func(hexutil.Bytes) (common.Hash, error) { return common.Hash{0xbd}, nil })
		gateway  = overHTTP(502, nil, "<h1>502 Bad Gateway</h1>")
		upstream = overHTTP(504, nil, "upstream timed out")
		insides  = overHTTP(500, nil, "Internal Server Error")
	)
	for name, c := range map[string]struct {
		endpoints []reply
		want      txn.Class
		asked     int           // endpoints; 0: all
		after     time.Duration // hint
	}{
		"accepted ends the round": {
			[]reply{accepts, invalid},
			txn.Accepted,
			1,
			0,
		},
		"known ends the round": {
			[]reply{known, accepts},
			txn.AlreadyKnown,
			1,
			0,
		},
		"nonce too low ends the round": {
			[]reply{low, accepts},
			txn.NonceTooLow,
			1,
			0,
		},
		"another attempt there ends the round": {
			[]reply{outbid, accepts},
			txn.ReplacementUnderpriced,
			1,
			0,
		},
		"cut, alone":                      {[]reply{cut}, txn.Ambiguous, 0, 0},
		"taken and the reply lost, alone": {[]reply{takenThenCut}, txn.Ambiguous, 0, 0},
		"cut, then accepted":              {[]reply{cut, accepts}, txn.Accepted, 0, 0},
		"cut, then known": {
			[]reply{takenThenCut, known},
			txn.AlreadyKnown,
			0,
			0,
		},
		"cut, then nonce too low":    {[]reply{cut, low}, txn.NonceTooLow, 0, 0},
		"cut, then refused":          {[]reply{cut, poor}, txn.Ambiguous, 0, 0},
		"cut, then refused for good": {[]reply{cut, invalid}, txn.Ambiguous, 0, 0},
		"cut, then down":             {[]reply{cut, closing}, txn.Ambiguous, 0, 0},
		"refused, then cut":          {[]reply{invalid, cut}, txn.Ambiguous, 0, 0},
		"502, then accepted": {
			[]reply{gateway, accepts},
			txn.Accepted,
			0,
			0,
		},
		"504, then refused": {
			[]reply{upstream, invalid},
			txn.Ambiguous,
			0,
			0,
		},
		"500, then closed": {
			[]reply{insides, shut},
			txn.Ambiguous,
			0,
			0,
		},
		"zero hash, then known": {
			[]reply{zero, known},
			txn.AlreadyKnown,
			0,
			0,
		},
		"another hash, then refused": {
			[]reply{another, invalid},
			txn.Ambiguous,
			0,
			0,
		},
		"unknown words, then accepted": {
			[]reply{gibber, accepts},
			txn.Accepted,
			0,
			0,
		},
		"unknown words everywhere": {
			[]reply{gibber, gibber},
			txn.Ambiguous,
			0,
			0,
		},
		"no room here, room there": {[]reply{full, accepts}, txn.Accepted, 0, 0},
		"a floor here, none there": {
			[]reply{cheap, accepts},
			txn.Accepted,
			0,
			0,
		},
		"a gap here, none there":    {[]reply{gap, accepts}, txn.Accepted, 0, 0},
		"no funds by one that lags": {[]reply{poor, accepts}, txn.Accepted, 0, 0},
		"invalid to one that is old, accepted by one": {
			[]reply{invalid, accepts},
			txn.Accepted,
			0,
			0,
		},
		"invalid here, no room there": {[]reply{invalid, full}, txn.PoolFull, 0, 0},
		"no room here, invalid there": {[]reply{full, invalid}, txn.PoolFull, 0, 0},
		"invalid everywhere":          {[]reply{invalid, invalid}, txn.Invalid, 0, 0},
		"invalid, and nobody else looked": {
			[]reply{invalid, closing, limited},
			txn.Invalid,
			0,
			0,
		},
		"reverts here, known there":          {[]reply{revert, known}, txn.AlreadyKnown, 0, 0},
		"two refusals: of the preferred one": {[]reply{poor, full}, txn.InsufficientFunds, 0, 0},
		"closed, then accepted":              {[]reply{shut, accepts}, txn.Accepted, 0, 0},
		"down, then no funds":                {[]reply{closing, poor}, txn.InsufficientFunds, 0, 0},
		"limited everywhere: the soonest": {
			[]reply{limited, sooner},
			txn.RateLimited,
			0,
			4 * time.Second,
		},
		"limited, then accepted":     {[]reply{limited, accepts}, txn.Accepted, 0, 0},
		"success without acceptance": {[]reply{accepts}, txn.Accepted, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, urls := make([]*fakeNode, len(c.endpoints)), make([]string, len(c.endpoints))
			for i := range nodes {
				nodes[i] = newNode(t)
				urls[i] = nodes[i].url()
			}
			r := dial(t, nil, urls...)
			for i, e := range r.endpoints { // all are connected, so only the send fails
				if _, f := e.headBlock(t.Context()); f != nil {
					t.Fatal(f)
				}
				c.endpoints[i](nodes[i])
				before := nodes[i].intercept
				nodes[i].set(func(n *fakeNode) {
					n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
						n.set(func(n *fakeNode) { n.sends++ })
						return before != nil && before(w, r)
					}
				})
			}
			o := r.Send(t.Context(), signed)
			if o.Class != c.want || o.RetryAfter != c.after ||
				(o.Detail == "") != (o.Class == txn.Accepted) {
				t.Errorf("%+v, want %s after %v", o, c.want, c.after)
			}
			if c.asked == 0 {
				c.asked = len(nodes)
			}
			for i, n := range nodes {
				n.mu.Lock()
				if (n.sends > 0) != (i < c.asked) || n.sends > 1 {
					t.Errorf("endpoint %d got the bytes %d times, want the first %d once each", i+1,
						n.sends, c.asked)
				}
				n.mu.Unlock()
			}
		})
	}
}

// Other reads settle the doubt that an AMBIGUOUS send or an empty success leaves.
func TestSend_Ambiguous_Outcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		send     reply
		reported txn.Class
		pool     txn.Diagnosis
	}{
		"success without acceptance": {answers(accept), txn.Accepted, txn.PossiblyLost},
		"taken, and the reply lost":  {takenThenCut, txn.Ambiguous, txn.InPool},
		"lost on the way":            {cut, txn.Ambiguous, txn.PossiblyLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			r := dial(t, nil, n.url())
			r.mustHead(t)
			c.send(n)
			if o := r.Send(t.Context(), signed); o.Class != c.reported {
				t.Errorf("%+v, want %s", o, c.reported)
			}
			n.set(func(n *fakeNode) { n.intercept = nil })
			r.clock.Advance(lastBackoff)
			if d, err := r.Pooled(
				t.Context(),
				txn.Address{1},
				0,
				[]txn.Hash{signed.Hash},
			); err != nil ||
				d != c.pool {
				t.Errorf("the pool: %q, %v; want %q", d, err, c.pool)
			}
			if a := r.Receipts(t.Context(), []txn.Hash{signed.Hash})[0]; a.Err != nil ||
				a.Receipt != nil {
				t.Errorf("%+v, want none", a)
			}
		})
	}
}

// A round is bounded, however many endpoints there are and however slowly they fail.
func TestSend_RoundTimeouts_End(t *testing.T) {
	t.Parallel()
	var urls []string
	var nodes []*fakeNode
	for range 5 {
		n := newNode(t)
		nodes, urls = append(nodes, n), append(urls, n.url())
	}
	r := dial(t, nil, urls...)
	var asked int
	for _, n := range nodes {
		n.onSend(func(w http.ResponseWriter, req *http.Request) {
			asked++
			r.clock.Advance(r.o.Timeout)
			cutConnection(w, req)
		})
	}
	if o := r.Send(context.WithoutCancel(t.Context()), signed); o.Class != txn.Ambiguous ||
		asked != roundTimeouts {
		t.Errorf("%+v after %d endpoints that took a timeout each; want an end after %d", o, asked,
			roundTimeouts)
	}
}
