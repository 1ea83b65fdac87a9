package chain

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/txn"
)

// randomNode accepts, rejects, cuts connections and rejects whole requests at random. It records
// accepted bytes.
type randomNode struct {
	mu          sync.Mutex
	rand        *rand.Rand
	took, maybe map[string]bool // accepted bytes, and bytes that a sender cannot exclude
}

func (m *randomNode) intercept(w http.ResponseWriter, r *http.Request) bool {
	body := readBody(r)
	if !strings.Contains(body, "eth_sendRawTransaction") {
		return false
	}
	m.mu.Lock()
	mood := m.rand.IntN(12)
	for _, part := range strings.Split(body, `"`) {
		if raw, err := hexutil.Decode(part); err == nil && mood > 0 && mood < 4 {
			m.maybe[string(raw)] = true
		}
	}
	m.mu.Unlock()
	switch mood {
	case 0:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case 1:
		panic(http.ErrAbortHandler) // the connection is cut
	case 2:
		w.WriteHeader(http.StatusGatewayTimeout)
	case 3:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(
			[]byte(
				`[{"jsonrpc":"2.0","id":77777777,"result":"0x00"},` +
					`{"jsonrpc":"2.0","id":77777777}]`),
		)
	default:
		return false
	}
	return true
}

func (m *randomNode) send(raw hexutil.Bytes) (common.Hash, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.rand.IntN(6) {
	case 0:
		return common.Hash{}, coded{code: -32000, msg: "insufficient funds for gas * price + value"}
	case 1:
		m.maybe[string(raw)] = true
		return common.HexToHash("0xbad"), nil
	case 2:
		return common.Hash{}, coded{code: -32000, msg: "already known"}
	}
	m.took[string(raw)] = true
	return crypto.Keccak256Hash(raw), nil
}

// Many owners send to a node that does anything, and some of them leave. No outcome claims an
// acceptance or an unsent request that is false, and no slot is lost.
func TestOutbox_RandomNode_OutcomesAreTrue(t *testing.T) {
	t.Parallel()
	m := &randomNode{
		rand:  rand.New(rand.NewPCG(12, 1)),
		took:  map[string]bool{},
		maybe: map[string]bool{},
	}
	n := newNode(t)
	r := dial(t, func(o *Options) { o.BatchLimit, o.MaxInFlight = 7, 5 }, n.url())
	r.mustHead(t)
	n.set(func(n *fakeNode) { n.send, n.intercept = m.send, m.intercept })
	all := manySigned(1200)
	classes := map[txn.Class]int{}
	for len(all) > 0 {
		crowd := all[:60]
		all = all[60:]
		outcomes := make([]txn.Outcome, len(crowd))
		var wg sync.WaitGroup
		for i, signed := range crowd {
			ctx, abandon := context.WithCancel(t.Context())
			if i%5 == 0 {
				timer := time.AfterFunc(time.Duration(i*20)*time.Microsecond, abandon)
				defer timer.Stop()
			}
			wg.Go(func() { defer abandon(); outcomes[i] = r.Send(ctx, signed) })
		}
		wg.Wait()
		for i, o := range outcomes {
			classes[o.Class]++
			m.mu.Lock()
			took, maybe := m.took[string(crowd[i].Raw)], m.maybe[string(crowd[i].Raw)]
			m.mu.Unlock()
			if o.Class == txn.Accepted && !took || outcome.RankOf(o.Class) > outcome.RankUnknown &&
				(took || maybe) {
				t.Errorf("%s %s, taken %t, perhaps %t", o.Class, o.Detail, took, maybe)
			}
		}
		r.clock.Advance(2 * batchPause) // and the node is queried again
		r.mustHead(t)
		e := r.endpoints[0]
		e.outbox.mu.Lock()
		if e.outbox.busy != 0 || len(e.outbox.waiting) > 0 {
			t.Fatalf("%d busy, %d wait", e.outbox.busy, len(e.outbox.waiting))
		}
		e.outbox.mu.Unlock()
	}
	t.Log(classes)
}
