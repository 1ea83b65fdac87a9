package devchain

import (
	"bytes"
	"crypto/ecdsa"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	gethlog "github.com/ethereum/go-ethereum/log"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Goroutines of go-ethereum: one set per process, and one that ends a second after its
		// database.
		goleak.IgnoreTopFunction("github.com/ethereum/go-ethereum/core.(*txSenderCacher).cache"),
		goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"))
}

// patience limits waits for events; it only detects failures.
const patience = 20 * time.Second

// chain is a chain with a client.
type chain struct {
	*Chain
	*ethclient.Client
	t *testing.T
}

func mustStart(t *testing.T, o Options) chain {
	t.Helper()
	c, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := ethclient.Dial(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := c.AwaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	return chain{c, client, t}
}

func (c chain) Close() error { return c.Chain.Close() }

func (c chain) mine(n int) {
	c.t.Helper()
	if _, err := c.Mine(n); err != nil {
		c.t.Fatal(err)
	}
}

// sign creates a transaction that sends 1 wei at the given nonce.
func (c chain) sign(from *ecdsa.PrivateKey, nonce uint64) *types.Transaction {
	to := common.HexToAddress("0xdead")
	return types.MustSignNewTx(
		from,
		types.LatestSignerForChainID(new(big.Int).SetUint64(c.ID())),
		&types.DynamicFeeTx{
			ChainID: new(big.Int).SetUint64(c.ID()), Nonce: nonce, To: &to, Value: big.NewInt(1),
			Gas:       21_000,
			GasTipCap: big.NewInt(params.GWei),
			GasFeeCap: big.NewInt(100 * params.GWei),
		},
	)
}

func (c chain) send(from *ecdsa.PrivateKey, nonce uint64) common.Hash {
	c.t.Helper()
	tx := c.sign(from, nonce)
	if err := c.SendTransaction(c.t.Context(), tx); err != nil {
		c.t.Fatal(err)
	}
	return tx.Hash()
}

func (c chain) head() *types.Header {
	c.t.Helper()
	h, err := c.HeaderByNumber(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return h
}

// receipt returns nil if there is none.
func (c chain) receipt(tx common.Hash) *types.Receipt {
	c.t.Helper()
	r, err := c.TransactionReceipt(c.t.Context(), tx)
	if err != nil && !errors.Is(err, ethereum.NotFound) {
		c.t.Fatal(err)
	}
	return r
}

func (c chain) pool() (pending, queued int) {
	c.t.Helper()
	var status map[string]string
	if err := c.Client.Client().Call(&status, "txpool_status"); err != nil {
		c.t.Fatal(err)
	}
	number := func(s string) int {
		n, ok := new(big.Int).SetString(s, 0)
		if !ok {
			c.t.Fatalf("txpool_status says %q", s)
		}
		return int(n.Int64())
	}
	return number(status["pending"]), number(status["queued"])
}

func (c chain) tag(name string) uint64 {
	c.t.Helper()
	var h *types.Header
	if err := c.Client.Client().Call(&h, "eth_getBlockByNumber", name, false); err != nil {
		c.t.Fatal(err)
	}
	return h.Number.Uint64()
}

func TestMine(t *testing.T) {
	t.Parallel()
	c := mustStart(
		t,
		Options{
			ChainID:  4242,
			Accounts: 2,
			Balance:  big.NewInt(params.Ether),
			GasLimit: 10_000_000,
		},
	)
	if id, err := c.Client.ChainID(t.Context()); err != nil || id.Uint64() != 4242 {
		t.Errorf("chain id %v, %v", id, err)
	}
	for i, want := range []int64{params.Ether, params.Ether, 0} {
		if got, err := c.BalanceAt(t.Context(), Address(i), nil); err != nil ||
			got.Int64() != want {
			t.Errorf("account %d has %v, %v; want %d", i, got, err, want)
		}
	}
	tx := c.send(Key(0), 0)
	if r := c.receipt(tx); r != nil {
		t.Errorf("mined without Mine, in block %v", r.BlockNumber)
	}
	hash, err := c.Mine(1)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.receipt(tx); r == nil || r.BlockHash != hash ||
		r.Status != types.ReceiptStatusSuccessful {
		t.Errorf("receipt %v, want one in block %v", r, hash)
	}
	if h := c.head(); h.Hash() != hash || h.GasLimit != 10_000_000 || h.BaseFee == nil {
		t.Errorf("the head is %v", h)
	}
	if got := crypto.PubkeyToAddress(Key(3).PublicKey); got != Address(3) || got == Address(4) {
		t.Errorf("key 3 belongs to %v", got)
	}
}

// Transactions sent before a block are in that block.
func TestMine_Burst_IncludesAll(t *testing.T) {
	t.Parallel()
	const accounts = 200
	c := mustStart(t, Options{Accounts: accounts})
	for nonce := range uint64(5) {
		var batch []rpc.BatchElem
		for i := range accounts {
			raw, err := c.sign(Key(i), nonce).MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			batch = append(batch,
				rpc.BatchElem{Method: "eth_sendRawTransaction", Args: []any{hexutil.Bytes(raw)}})
		}
		if err := c.Client.Client().BatchCall(batch); err != nil {
			t.Fatal(err)
		}
		hash, err := c.Mine(1)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.TransactionCount(t.Context(), hash); err != nil || n != accounts {
			t.Errorf("round %d: the block has %d of %d transactions, %v", nonce, n, accounts, err)
		}
	}
}

func TestPeriod(t *testing.T) {
	t.Parallel()
	c := mustStart(t, Options{Period: 20 * time.Millisecond})
	ws, err := ethclient.Dial(c.WSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	heads := make(chan *types.Header)
	sub, err := ws.SubscribeNewHead(t.Context(), heads)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	first := <-heads
	last := first
	for range 10 {
		next := <-heads
		if next.ParentHash != last.Hash() {
			t.Fatalf("block %v does not follow %v", next.Number, last.Number)
		}
		last = next
	}
	if !strings.HasPrefix(c.WSURL(), "ws://127.0.0.1:") ||
		c.WSURL()[len("ws"):] != c.URL()[len("http"):] {
		t.Errorf("WebSocket at %s, HTTP at %s", c.WSURL(), c.URL())
	}
}

// A connected subscriber must not delay Close.
func TestClose_OpenSubscription_Ended(t *testing.T) {
	t.Parallel()
	c := mustStart(t, Options{Period: 20 * time.Millisecond, DataDir: t.TempDir()})
	ws, err := rpc.Dial(c.WSURL())
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	heads := make(chan *types.Header, 100)
	sub, err := ws.EthSubscribe(t.Context(), heads, "newHeads")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	<-heads
	if err := c.Close(); err != nil { // the client keeps its connection open
		t.Error(err)
	}
	<-sub.Err()
	if err := c.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	if _, err := c.Mine(1); err == nil {
		t.Error("a closed chain made a block")
	}
	if err := c.Reorg(1, Keep); err == nil {
		t.Error("a closed chain was reorganised")
	}
	if err := c.DropPending(); err == nil {
		t.Error("the pool of a closed chain was emptied")
	}
}

func TestReorg(t *testing.T) {
	t.Parallel()
	type outcome struct {
		included bool // right after the reorg
		later    bool // after one more block
		// right after the reorg, a transaction that was never mined on the other branch
		pending int
	}
	for disposition, want := range map[Disposition]outcome{
		Keep:   {included: true, later: true},
		Return: {later: true, pending: 3},
		Drop:   {},
	} {
		t.Run(string(disposition), func(t *testing.T) {
			t.Parallel()
			c := mustStart(t, Options{})
			c.mine(2)
			var txs []common.Hash
			for nonce := range uint64(3) {
				txs = append(txs, c.send(Key(0), nonce))
				c.mine(1)
			}
			c.send(Key(1), 0) // never mined; unaffected
			old := c.head()
			before := c.receipt(txs[0])
			if err := c.Reorg(3, disposition); err != nil {
				t.Fatal(err)
			}
			now := c.head()
			if now.Number.Uint64() != old.Number.Uint64()+1 || now.Hash() == old.Hash() {
				t.Errorf("the head was %v and is %v", old.Number, now.Number)
			}
			if h, err := c.HeaderByNumber(t.Context(), old.Number); err != nil ||
				h.Hash() == old.Hash() {
				t.Errorf("the old head is still canonical (%v)", err)
			}
			if pending, queued := c.pool(); pending != want.pending+1 || queued != 0 {
				t.Errorf("the pool has %d pending and %d queued, want %d", pending, queued,
					want.pending+1)
			}
			for i, tx := range txs {
				if got := c.receipt(tx) != nil; got != want.included {
					t.Errorf("transaction %d is included: %v, want %v", i, got, want.included)
				}
			}
			if r := c.receipt(txs[0]); r != nil &&
				(r.BlockHash == before.BlockHash || r.BlockNumber.Cmp(before.BlockNumber) != 0) {
				t.Errorf("it is in block %v %v, and was in %v %v", r.BlockNumber, r.BlockHash,
					before.BlockNumber, before.BlockHash)
			}
			c.mine(1)
			for i, tx := range txs {
				if got := c.receipt(tx) != nil; got != want.later {
					t.Errorf("transaction %d is included in the end: %v, want %v", i, got,
						want.later)
				}
			}
		})
	}
}

func TestSafeAndFinal(t *testing.T) {
	t.Parallel()
	c := mustStart(t, Options{})
	c.mine(FinalDepth + 9) // after the first
	if safe, final := c.tag("safe"), c.tag("finalized"); safe != FinalDepth+10-SafeDepth ||
		final != 10 {
		t.Errorf("safe is %d, final is %d", safe, final)
	}
	for _, depth := range []int{0, -1, FinalDepth + 1, 1 << 40} {
		if err := c.Reorg(depth, Keep); err == nil ||
			!strings.Contains(err.Error(), "the depth must be 1 to 64") {
			t.Errorf("Reorg(%d): %v", depth, err)
		}
	}
	if err := c.Reorg(1, "forget"); err == nil {
		t.Error("Reorg took a fate that there is not")
	}
	if err := c.Reorg(FinalDepth, Keep); err != nil {
		t.Errorf("Reorg(%d): %v", FinalDepth, err)
	}
	if final := c.tag("finalized"); final != 11 {
		t.Errorf("block %d is final", final)
	}
}

func TestDropPending(t *testing.T) {
	t.Parallel()
	c := mustStart(t, Options{})
	gone := c.send(Key(0), 0)
	c.send(Key(0), 1) // has a gap before it then
	stays := c.send(Key(1), 0)
	if err := c.DropPending(gone); err != nil {
		t.Fatal(err)
	}
	if pending, queued := c.pool(); pending != 1 || queued != 1 {
		t.Errorf("the pool has %d pending, %d queued", pending, queued)
	}
	c.mine(1)
	if c.receipt(gone) != nil || c.receipt(stays) == nil {
		t.Error("the wrong one was dropped")
	}
	if err := c.DropPending(); err != nil {
		t.Fatal(err)
	}
	if pending, queued := c.pool(); pending != 0 || queued != 0 {
		t.Errorf("the pool has %d pending, %d queued", pending, queued)
	}
}

func TestDevRPC(t *testing.T) {
	t.Parallel()
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		c := mustStart(t, Options{})
		for _, method := range []string{
			"dev_mine",
			"dev_reorg",
			"dev_dropPending",
			"debug_setHead",
		} {
			err := c.Client.Client().Call(nil, method)
			if err == nil || !strings.Contains(err.Error(), "does not exist") {
				t.Errorf("%s: %v", method, err)
			}
		}
	})
	t.Run("on", func(t *testing.T) {
		t.Parallel()
		c := mustStart(t, Options{DevRPC: true})
		call := func(method string, args ...any) {
			t.Helper()
			if err := c.Client.Client().Call(nil, method, args...); err != nil {
				t.Errorf("%s%v: %v", method, args, err)
			}
		}
		tx := c.send(Key(0), 0)
		call("dev_dropPending", []common.Hash{tx})
		tx = c.send(Key(0), 0)
		call("dev_mine")
		call("dev_mine", 3)
		if c.receipt(tx) == nil || c.head().Number.Uint64() != 5 {
			t.Errorf("dev_mine: the head is %v", c.head().Number)
		}
		call("dev_reorg", 2)
		call("dev_reorg", 5, Drop)
		if c.receipt(tx) != nil {
			t.Error("dev_reorg dropped nothing")
		}
		c.send(Key(0), 0)
		call("dev_dropPending")
		if pending, _ := c.pool(); pending != 0 {
			t.Error("dev_dropPending dropped nothing")
		}
	})
}

func TestWallet(t *testing.T) {
	t.Parallel()
	send := func(c chain, fields map[string]any) (hash common.Hash, err error) {
		return hash, c.Client.Client().Call(&hash, "eth_sendTransaction", fields)
	}
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		c := mustStart(t, Options{})
		if hash, err := send(c, map[string]any{"from": Address(0), "to": Address(1)}); err == nil {
			t.Errorf("sent %s", hash)
		}
	})
	t.Run("on", func(t *testing.T) {
		t.Parallel()
		c := mustStart(t, Options{DevRPC: true, Accounts: 2})
		var accounts []common.Address
		if err := c.Client.Client().Call(&accounts, "eth_accounts"); err != nil ||
			!slices.Equal(accounts, []common.Address{Address(0), Address(1)}) {
			t.Errorf("accounts %v, %v", accounts, err)
		}
		to := common.HexToAddress("0xdead")
		fields := map[string]any{"from": Address(1), "to": to, "value": "0x7"}
		first, err := send(c, fields)
		if err != nil {
			t.Fatal(err)
		}
		fields["nonce"] = "0x1"
		second, err := send(c, fields)
		if err != nil {
			t.Fatal(err)
		}
		c.mine(1)
		for _, hash := range []common.Hash{first, second} {
			if r := c.receipt(hash); r == nil || r.Status != types.ReceiptStatusSuccessful {
				t.Errorf("%s has the receipt %v", hash, r)
			}
		}
		balance, err := c.BalanceAt(t.Context(), to, nil)
		if err != nil || balance.Int64() != 14 {
			t.Errorf("balance %v, %v", balance, err)
		}
		for what, fields := range map[string]map[string]any{
			"no development key": {"from": Address(2), "to": to},
			"chainId":            {"from": Address(0), "to": to, "chainId": "0x1"},
		} {
			if _, err := send(c, fields); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestBusyPort(t *testing.T) {
	t.Parallel()
	c := mustStart(t, Options{})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(c.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(Options{Port: number})
	if want := "port " + port + " on 127.0.0.1 is in use"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("Start: %v", err)
	}
}

func TestLogs(t *testing.T) { // not parallel: go-ethereum's logger is global
	var out bytes.Buffer
	before := slog.Default()
	RouteLogs(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	gethlog.Info("hello", "n", 1)
	gethlog.Warn("beware")
	RouteLogs(nil)
	gethlog.Error("lost")
	if slog.Default() != before {
		t.Error("the default logger of log/slog was changed")
	}
	got := out.String()
	if !strings.Contains(got, "level=DEBUG msg=hello n=1") ||
		!strings.Contains(got, "level=WARN msg=beware") ||
		strings.Contains(got, "lost") {
		t.Errorf("logged:\n%s", got)
	}
}

func TestAwaitIndexed(t *testing.T) {
	t.Parallel()
	c := mustStart(t, Options{}) // waits for it
	local := c.Chain.Client()
	defer local.Close()
	if _, err := local.TransactionReceipt(t.Context(), common.Hash{1}); !errors.Is(err,
		ethereum.NotFound) {
		t.Errorf("an unknown transaction: %v", err)
	}
}
