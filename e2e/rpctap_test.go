package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tap stands between one node and its chain. It writes down every transaction that the node sends,
// and asks the ledger at that moment whether it is recorded (law L3). It can be cut.
type tap struct {
	node   string
	url    string
	ledger *pgxpool.Pool
	cut    atomic.Bool
	line   sync.RWMutex // blocks all calls while held

	mu   sync.Mutex
	sent []sending
	meet func(common.Hash) (steal bool) // handles the next broadcast, once
}

// sending is one broadcast of signed bytes, as the chain would receive it.
type sending struct {
	at    time.Time
	hash  common.Hash
	asked bool // the ledger answered
	known bool // and had it
}

func newTap(t *testing.T, node, chain string, ledger *pgxpool.Pool) *tap {
	t.Helper()
	to, err := url.Parse(chain)
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{node: node, ledger: ledger}
	forward := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		// as the chain itself would
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { hangUp(w) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || p.cut.Load() {
			hangUp(w)
			return
		}
		p.note(body)
		if p.stolen(w, body) {
			return
		}
		p.line.RLock()
		defer p.line.RUnlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func hangUp(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// note records the broadcasts in a request before the chain receives it.
func (p *tap) note(body []byte) {
	for _, raw := range rawTransactions(body) {
		s := sending{at: time.Now(), hash: crypto.Keccak256Hash(raw)}
		s.known, s.asked = p.recorded(s.hash)
		p.mu.Lock()
		p.sent = append(p.sent, s)
		p.mu.Unlock()
	}
}

// still lets something happen to the chain of which the node sees nothing but the end: its calls
// wait meanwhile.
func (p *tap) still(happen func()) {
	p.line.Lock()
	defer p.line.Unlock()
	happen()
}

// onNext has the next sending meet something: it may be held up for a while, and stolen, which the
// sender takes for success.
func (p *tap) onNext(meet func(common.Hash) (steal bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meet = meet
}

func (p *tap) stolen(w http.ResponseWriter, body []byte) bool {
	raw := rawTransactions(body)
	if len(raw) != 1 {
		return false
	}
	p.mu.Lock()
	meet := p.meet
	p.meet = nil
	p.mu.Unlock()
	hash := crypto.Keccak256Hash(raw[0])
	if meet == nil || !meet(hash) {
		return false
	}
	var question struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(body, &question) // it was read once already
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%q}`, question.ID, hash.Hex())
	return true
}

// recorded asks the ledger, which may be down just now.
func (p *tap) recorded(h common.Hash) (known, answered bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := p.ledger.QueryRow(ctx, "SELECT EXISTS (SELECT FROM tx_attempt WHERE tx_hash = $1)",
		h.Bytes()).Scan(
		&known,
	)
	return known, err == nil
}

func rawTransactions(body []byte) (list [][]byte) {
	type call struct {
		Method string            `json:"method"`
		Params []json.RawMessage `json:"params"`
	}
	var calls []call
	if json.Unmarshal(body, &calls) != nil {
		calls = make([]call, 1)
		if json.Unmarshal(body, &calls[0]) != nil {
			return nil
		}
	}
	for _, c := range calls {
		var raw hexutil.Bytes
		if c.Method == "eth_sendRawTransaction" && len(c.Params) > 0 &&
			json.Unmarshal(c.Params[0], &raw) == nil {
			list = append(list, raw)
		}
	}
	return list
}

// verify requires every broadcast to have been recorded before. If the ledger was down at that
// moment, the record's time decides later. What a fail-over lost was recorded by the old primary.
func (p *tap) verify(t *testing.T, lost map[common.Hash]time.Time) {
	t.Helper()
	for _, s := range p.all() {
		if before, recorded := lost[s.hash]; s.asked && s.known ||
			recorded && !before.After(s.at) {
			continue
		}
		var recorded *time.Time
		err := p.ledger.QueryRow(context.Background(),
			"SELECT min(created_at) FROM tx_attempt WHERE tx_hash = $1", s.hash.Bytes()).Scan(
			&recorded,
		)
		if err != nil {
			t.Fatal(err)
		}
		if s.asked || recorded == nil || recorded.After(s.at) {
			t.Errorf("node %s sent %s at %s, when it was not recorded (recorded: %v)", p.node,
				s.hash, s.at.Format(time.StampMicro), recorded)
		}
	}
}

func (p *tap) all() []sending {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]sending(nil), p.sent...)
}

func TestTap_ReadsCalls(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"method":"eth_sendRawTransaction","params":["0x0102"]}`: 1,
		`[{"method":"eth_sendRawTransaction","params":["0x01"]},` +
			`{"method":"eth_sendRawTransaction","params":["0x02"]}]`: 2,
		`[{"method":"eth_blockNumber","params":[]},` +
			`{"method":"eth_sendRawTransaction","params":["0x02"]}, {"method":"eth_call"}]`: 1,
		`{"method":"eth_call","params":["0x01"]}`: 0,
		`nonsense`: 0,
	} {
		if got := rawTransactions([]byte(body)); len(got) != want {
			t.Errorf("%s: %s", body, fmt.Sprint(got))
		}
	}
}
