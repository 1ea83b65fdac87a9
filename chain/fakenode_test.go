package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/fencepost/fencepost/txn"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testChain = txn.ChainID(31337)

// fakeNode is a JSON-RPC server (go-ethereum's), HTTP and WebSocket on one address, with responses
// set by the test.
type fakeNode struct {
	addr  string
	port  heldPort
	http  *httptest.Server
	rpc   *rpc.Server
	heads chan struct{} // a send notifies every subscription of a head

	mu       sync.Mutex
	chainID  uint64
	idErr    error
	shift    uint64 // blocks are returned with numbers lower by this
	genesis  common.Hash
	head     uint64
	baseFee  *hexutil.Big
	txs      map[uint64][]common.Hash // in the blocks
	calls    map[string]int
	sends    int
	requests int // HTTP requests that reached the JSON-RPC server
	send     func(raw hexutil.Bytes) (common.Hash, error)
	receipt  func(hash common.Hash) (map[string]any, error)
	count    func(tag string) (hexutil.Uint64, error)
	full     func(number uint64) map[string]any // a block with its transactions; nil: one without
	estimate func(args map[string]any) (hexutil.Uint64, error)
	history  func() (map[string]any, error)
	tipHint  *hexutil.Big // of eth_maxPriorityFeePerGas; nil: there is no such method
	// percentiles of the last eth_feeHistory
	asked []float64
	known func(hash common.Hash) (map[string]any, error) // eth_getTransactionByHash
	// eth_getBlockReceipts; nil: there is no such method
	inBlock func(number uint64) ([]map[string]any, error)
	// eth_getBlockByNumber of a tag; nil: tags are unsupported
	tagged    func(tag string) (map[string]any, error)
	balance   *hexutil.Big
	code      hexutil.Bytes // of every account
	gasPrice  *hexutil.Big
	call      func(data hexutil.Bytes) (hexutil.Bytes, error)   // eth_call
	blockGate func()                                            // called in eth_getBlockByNumber
	intercept func(w http.ResponseWriter, r *http.Request) bool // returns true if it responded
}

func newNode(t *testing.T) *fakeNode {
	t.Helper()
	n := &fakeNode{
		chainID: uint64(testChain),
		genesis: common.HexToHash("0x9e"),
		head:    10,
		calls:   map[string]int{},
		heads:   make(chan struct{}),
	}
	n.port = holdPort(t)
	n.addr = n.port.addr
	n.listen(t)
	t.Cleanup(n.stop)
	return n
}

// listen serves at the node's address, also after stop.
func (n *fakeNode) listen(t *testing.T) {
	t.Helper()
	l := n.port.listen(t)
	n.rpc = rpc.NewServer()
	if err := n.rpc.RegisterName("eth", &fakeAPI{n}); err != nil {
		t.Fatal(err)
	}
	n.http = &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(n.serve)}}
	n.http.Start()
}

func (n *fakeNode) serve(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	intercept := n.intercept
	n.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		n.rpc.WebsocketHandler([]string{"*"}).ServeHTTP(w, r)
		return
	}
	n.mu.Lock()
	n.requests++
	n.mu.Unlock()
	n.rpc.ServeHTTP(w, r)
}

func (n *fakeNode) stop() {
	n.http.CloseClientConnections()
	n.http.Close()
	n.rpc.Stop()
}

func (n *fakeNode) url() string   { return "http://" + n.addr }
func (n *fakeNode) wsURL() string { return "ws://" + n.addr }

// set changes the node under its lock.
func (n *fakeNode) set(change func(*fakeNode)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

func (n *fakeNode) called(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[method]
}

// answerHTTP makes every request fail in the given way.
func (n *fakeNode) answerHTTP(status int, header map[string]string, body string) {
	n.set(func(n *fakeNode) {
		n.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
			for k, v := range header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	})
}

// onSend replaces the response to requests that contain eth_sendRawTransaction.
func (n *fakeNode) onSend(response http.HandlerFunc) {
	n.set(func(n *fakeNode) {
		n.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			body := readBody(r)
			if !strings.Contains(body, "eth_sendRawTransaction") {
				return false
			}
			response(w, r)
			return true
		}
	})
}

// fakeAPI is the eth namespace.
type fakeAPI struct{ n *fakeNode }

func (a *fakeAPI) begin(method string) *fakeNode {
	a.n.mu.Lock()
	a.n.calls[method]++
	return a.n
}

//
//lint:ignore ST1003 the name is the method's on the wire, eth_chainId
func (a *fakeAPI) ChainId() (hexutil.Uint64, error) { //nolint:staticcheck // eth_chainId
	n := a.begin("eth_chainId")
	defer n.mu.Unlock()
	return hexutil.Uint64(n.chainID), n.idErr
}

func (a *fakeAPI) BlockNumber() hexutil.Uint64 {
	n := a.begin("eth_blockNumber")
	defer n.mu.Unlock()
	return hexutil.Uint64(n.head)
}

func (a *fakeAPI) GetBlockByNumber(tag string, full bool) (map[string]any, error) {
	n := a.begin("eth_getBlockByNumber")
	gate := n.blockGate
	n.mu.Unlock()
	if gate != nil && tag == "0x3" {
		gate()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if full && n.full != nil {
		number, err := hexutil.DecodeUint64(tag)
		if err != nil {
			return nil, err
		}
		return n.full(number), nil
	}
	if tag == "latest" {
		return n.block(n.head), nil
	}
	if n.tagged != nil && !strings.HasPrefix(tag, "0x") {
		return n.tagged(tag)
	}
	number, err := hexutil.DecodeUint64(tag)
	if err != nil {
		return nil, coded{code: -32602, msg: "invalid argument 0: hex string without 0x prefix"}
	}
	if number > n.head {
		return nil, nil
	}
	return n.block(number - min(n.shift, number)), nil
}

func (a *fakeAPI) GetBlockByHash(hash common.Hash, _ bool) map[string]any {
	n := a.begin("eth_getBlockByHash")
	defer n.mu.Unlock()
	for number := range n.head + 1 {
		if n.hash(number) == hash {
			return n.block(number - min(n.shift, number))
		}
	}
	return nil
}

func (n *fakeNode) hash(number uint64) common.Hash {
	if number == 0 {
		return n.genesis
	}
	return common.BigToHash(new(big.Int).SetUint64(0xb10c0000 + number))
}

func (n *fakeNode) block(number uint64) map[string]any {
	txs := n.txs[number]
	if txs == nil {
		txs = []common.Hash{}
	}
	b := map[string]any{
		"number": hexutil.Uint64(
			number),
		"hash":         n.hash(number),
		"timestamp":    hexutil.Uint64(number),
		"gasLimit":     hexutil.Uint64(30_000_000),
		"transactions": txs,
		"parentHash":   common.Hash{},
	}
	if number > 0 {
		b["parentHash"] = n.hash(number - 1)
	}
	if n.baseFee != nil {
		b["baseFeePerGas"] = n.baseFee
	}
	return b
}

func (a *fakeAPI) SendRawTransaction(raw hexutil.Bytes) (common.Hash, error) {
	n := a.begin("eth_sendRawTransaction")
	send := n.send
	n.mu.Unlock()
	if send == nil {
		return common.Hash{}, errors.New("no answer was set")
	}
	return send(raw)
}

func (a *fakeAPI) GetTransactionReceipt(hash common.Hash) (map[string]any, error) {
	n := a.begin("eth_getTransactionReceipt")
	receipt := n.receipt
	n.mu.Unlock()
	if receipt == nil {
		return nil, nil
	}
	return receipt(hash)
}

func (a *fakeAPI) GetTransactionCount(_ common.Address, tag string) (hexutil.Uint64, error) {
	n := a.begin("eth_getTransactionCount")
	count := n.count
	n.mu.Unlock()
	if count == nil {
		return 0, nil
	}
	return count(tag)
}

func (a *fakeAPI) GetCode(common.Address, string) hexutil.Bytes {
	n := a.begin("eth_getCode")
	defer n.mu.Unlock()
	return n.code
}

func (a *fakeAPI) GetBalance(common.Address, string) *hexutil.Big {
	n := a.begin("eth_getBalance")
	defer n.mu.Unlock()
	if n.balance == nil {
		return (*hexutil.Big)(common.Big0)
	}
	return n.balance
}

func (a *fakeAPI) EstimateGas(args map[string]any) (hexutil.Uint64, error) {
	n := a.begin("eth_estimateGas")
	estimate := n.estimate
	n.mu.Unlock()
	if estimate == nil {
		return 21000, nil
	}
	return estimate(args)
}

func (a *fakeAPI) Call(args struct {
	To   common.Address `json:"to"`
	Data hexutil.Bytes  `json:"data"`
}, _ string) (hexutil.Bytes, error) {
	n := a.begin("eth_call")
	call := n.call
	n.mu.Unlock()
	if call == nil || args.To != gasPriceOracle {
		return hexutil.Bytes{}, nil
	}
	return call(args.Data)
}

func (a *fakeAPI) FeeHistory(_ hexutil.Uint64, _ string,
	percentiles []float64) (map[string]any, error) {
	n := a.begin("eth_feeHistory")
	history := n.history
	n.asked = percentiles
	n.mu.Unlock()
	if history == nil {
		return nil, coded{
			code: -32601,
			msg:  "the method eth_feeHistory does not exist/is not available",
		}
	}
	return history()
}

func (a *fakeAPI) GetTransactionByHash(hash common.Hash) (map[string]any, error) {
	n := a.begin("eth_getTransactionByHash")
	known := n.known
	n.mu.Unlock()
	if known == nil {
		return nil, nil
	}
	return known(hash)
}

func (a *fakeAPI) GetBlockReceipts(number hexutil.Uint64) ([]map[string]any, error) {
	n := a.begin("eth_getBlockReceipts")
	inBlock := n.inBlock
	n.mu.Unlock()
	if inBlock == nil {
		return nil, coded{
			code: -32601,
			msg:  "the method eth_getBlockReceipts does not exist/is not available",
		}
	}
	return inBlock(uint64(number))
}

func (a *fakeAPI) GasPrice() (*hexutil.Big, error) {
	n := a.begin("eth_gasPrice")
	defer n.mu.Unlock()
	if n.gasPrice == nil {
		return nil, coded{
			code: -32601,
			msg:  "the method eth_gasPrice does not exist/is not available",
		}
	}
	return n.gasPrice, nil
}

func (a *fakeAPI) MaxPriorityFeePerGas() (*hexutil.Big, error) {
	n := a.begin("eth_maxPriorityFeePerGas")
	defer n.mu.Unlock()
	if n.tipHint == nil {
		return nil, coded{
			code: -32601,
			msg:  "the method eth_maxPriorityFeePerGas does not exist/is not available",
		}
	}
	return n.tipHint, nil
}

func (a *fakeAPI) NewHeads(ctx context.Context) (*rpc.Subscription, error) {
	notifier, ok := rpc.NotifierFromContext(ctx)
	if !ok {
		return nil, rpc.ErrNotificationsUnsupported
	}
	sub := notifier.CreateSubscription()
	go func() {
		for {
			select {
			case <-a.n.heads:
				_ = notifier.Notify(sub.ID, map[string]any{"number": "0x1"})
			case <-sub.Err():
				return
			}
		}
	}()
	return sub, nil
}

// coded is an error with a JSON-RPC code and data.
type coded struct {
	code int
	msg  string
	data any
}

func (c coded) Error() string  { return c.msg }
func (c coded) ErrorCode() int { return c.code }
func (c coded) ErrorData() any { return c.data }

// readBody reads a request's body and restores it.
func readBody(r *http.Request) string {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return string(b)
}
