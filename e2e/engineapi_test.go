package e2e

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"maps"
	"math/big"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	beaconapi "github.com/ethereum/go-ethereum/beacon/engine"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	gethnode "github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"
)

// beacon is a consensus client under the test's control. It runs geth as a process, gives it blocks
// with the transactions the test chooses, and sets the head the test names. Nothing happens on such
// a chain without the test.
type beacon struct {
	*testChain
	t           *testing.T
	api         *rpc.Client       // authenticated
	funder      *ecdsa.PrivateKey // a funded account that is not a submitter
	funderNonce uint64            // its nonce
	drawn       uint64            // blocks so far: no two are the same
	finalized   common.Hash       // sent to geth with each new head; zero: none
}

// block is a block that geth has built and not published.
type block = *beaconapi.ExecutableData

// beaconOptions are the settings that vary between tests.
type beaconOptions struct {
	keys     int
	poor     int    // the last of them have no money
	gasLimit uint64 // of a block; 0: thirty million
	nolocals bool   // transactions of its callers are dropped when it stops
}

const (
	beaconChainID = 31338
	slotSeconds   = 12
)

// reverter is in the genesis block: a contract that refuses every call with Error("nope").
var reverter = common.HexToAddress("0x4e0e")

func newBeacon(t *testing.T, o beaconOptions) *beacon {
	t.Helper()
	b := &beacon{t: t, funder: newKey(t)}
	var keys []*ecdsa.PrivateKey
	for range o.keys {
		keys = append(keys, newKey(t))
	}
	if o.gasLimit == 0 {
		o.gasLimit = 30_000_000
	}
	secret := crypto.Keccak256Hash([]byte(t.Name()))
	start, url, engine := prepareGeth(t,
		genesisOf(append(keys[:o.keys-o.poor:o.keys-o.poor], b.funder), o.gasLimit), secret, o)
	proc := start()
	var err error
	if b.api, err = rpc.DialOptions(
		t.Context(), engine, rpc.WithHTTPAuth(gethnode.NewJWTAuth(secret)),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.api.Close)
	b.await(url)
	b.testChain = dial(t, url)
	b.keys = keys
	b.restart = func() error {
		_ = proc.cmd.Process.Signal(syscall.SIGTERM) // fails only when it has ended
		<-proc.done
		proc = start()
		b.await(url)
		return nil
	}
	b.mine(2)
	return b
}

// await waits until geth answers on both of its ports, which it opens one after the other.
func (b *beacon) await(url string) {
	b.t.Helper()
	eventually(b.t, 60*time.Second, "geth answers", func() error {
		if err := b.api.CallContext(
			context.Background(), nil, "engine_exchangeCapabilities", []string{},
		); err != nil {
			return err
		}
		return answers(url)
	})
}

// prepareGeth writes the genesis block and returns geth's command line and addresses.
func prepareGeth(t *testing.T, genesis *core.Genesis, secret common.Hash,
	o beaconOptions) (start func() *process, url, engine string) {
	t.Helper()
	path, err := exec.LookPath("geth")
	if err != nil {
		t.Fatal("geth is not on PATH; run this through `make e2e`, which builds it")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	text, err := json.Marshal(genesis)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, in("genesis.json"), string(text))
	writeFile(t, in("secret"), secret.Hex())
	if out, err := exec.Command(
		path, "init", "--datadir", in("data"), in("genesis.json"),
	).CombinedOutput(); err != nil {
		t.Fatalf("geth init: %v\n%s", err, out)
	}
	port, enginePort := freePort(t), freePort(t)
	args := []string{
		"--datadir", in("data"), "--networkid", strconv.Itoa(beaconChainID), "--ipcdisable",
		"--nodiscover", "--maxpeers", "0", "--port", "0", "--verbosity", "1", "--syncmode",
		"full",
		"--http", "--http.addr", "127.0.0.1", "--http.port", port, "--http.api",
		"eth,net,web3,txpool,debug,testing",
		"--authrpc.addr", "127.0.0.1", "--authrpc.port", enginePort, "--authrpc.jwtsecret",
		in("secret"),
		"--miner.gaslimit", strconv.FormatUint(o.gasLimit, 10), "--cache", "64",
	}
	if o.nolocals {
		args = append(args, "--txpool.nolocals")
	}
	start = func() *process { return startProcess(t, exec.Command(path, args...), in("geth.log")) }
	return start, "http://127.0.0.1:" + port, "http://127.0.0.1:" + enginePort
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// genesisOf is a chain that was never mined, with the rules of Osaka from the first block on.
func genesisOf(rich []*ecdsa.PrivateKey, gasLimit uint64) *core.Genesis {
	zero := new(uint64)
	config := *params.AllDevChainProtocolChanges
	config.ChainID = big.NewInt(beaconChainID)
	config.OsakaTime, config.BogotaTime = zero, nil
	g := &core.Genesis{
		Config: &config, GasLimit: gasLimit, BaseFee: big.NewInt(params.InitialBaseFee),
		Difficulty: new(big.Int),
		Timestamp: uint64(
			time.Now().Add(-24 * time.Hour).Unix()),
		Alloc: types.GenesisAlloc{reverter: {Balance: new(big.Int), Code: refuseAll()}},
	}
	maps.Copy(g.Alloc, core.SystemContractAllocs())
	for _, key := range rich {
		g.Alloc[crypto.PubkeyToAddress(key.PublicKey)] = types.Account{
			Balance: new(big.Int).Mul(big.NewInt(100), big.NewInt(params.Ether)),
		}
	}
	return g
}

// refuseAll reverts with Error("nope"), ABI-encoded behind its code.
func refuseAll() []byte {
	code := []byte{0x60, 100, 0x60, 12, 0x60, 0, 0x39, 0x60, 100, 0x60, 0, 0xfd}
	data := make([]byte, 100)
	copy(data, crypto.Keccak256([]byte("Error(string)"))[:4])
	data[35], data[67] = 32, 4
	copy(data[68:], "nope")
	return append(code, data...)
}

// build builds a block of these signed transactions on geth's head. It is not published until the
// chain is extended to it.
func (b *beacon) build(raws ...[]byte) block {
	b.t.Helper()
	txs := make([]hexutil.Bytes, 0, len(raws))
	for _, raw := range raws {
		txs = append(txs, raw)
	}
	made := b.make(&txs)
	if len(made.Transactions) != len(raws) {
		b.t.Fatalf("geth put %d of %d transactions into a block", len(made.Transactions), len(raws))
	}
	return made
}

// fromPool builds a block of all paying transactions in geth's pool.
func (b *beacon) fromPool() block { return b.make(nil) }

func (b *beacon) make(txs *[]hexutil.Bytes) block {
	b.t.Helper()
	head := b.head()
	b.drawn++
	attributes := beaconapi.PayloadAttributes{
		Timestamp:   head.Time + slotSeconds,
		Random:      common.BigToHash(new(big.Int).SetUint64(b.drawn)),
		Withdrawals: []*types.Withdrawal{}, BeaconRoot: &common.Hash{},
	}
	var made beaconapi.ExecutionPayloadEnvelope
	if err := b.Client.Client().CallContext(
		context.Background(), &made, "testing_buildBlockV1", head.Hash(), attributes, txs, nil,
	); err != nil {
		b.t.Fatalf("build a block: %v", err)
	}
	if len(made.Requests) > 0 {
		b.t.Fatal("the block asks something of validators, of which this chain has none")
	}
	return made.ExecutionPayload
}

func (b *beacon) head() *types.Header {
	b.t.Helper()
	head, err := b.HeaderByNumber(context.Background(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return head
}

// extend gives geth blocks, each of which becomes its head, wherever its parent is.
func (b *beacon) extend(blocks ...block) {
	b.t.Helper()
	for _, made := range blocks {
		var status beaconapi.PayloadStatusV1
		if err := b.api.CallContext(
			context.Background(), &status, "engine_newPayloadV4", made, []common.Hash{},
			common.Hash{}, []hexutil.Bytes{},
		); err != nil ||
			status.Status != beaconapi.VALID {
			b.t.Fatalf("geth does not take block %d: %+v, %v", made.Number, status, err)
		}
		b.choose(made.BlockHash)
	}
}

// choose names the head: a block that geth has, which may be one that it had left, or one far
// below.
func (b *beacon) choose(head common.Hash) {
	b.t.Helper()
	state := beaconapi.ForkchoiceStateV1{
		HeadBlockHash:      head,
		SafeBlockHash:      b.finalized,
		FinalizedBlockHash: b.finalized,
	}
	var answer beaconapi.ForkChoiceResponse
	if err := b.api.CallContext(
		context.Background(), &answer, "engine_forkchoiceUpdatedV3", state, nil,
	); err != nil ||
		answer.PayloadStatus.Status != beaconapi.VALID {
		b.t.Fatalf("geth does not take %s for its head: %+v, %v", head, answer, err)
	}
	if got := b.head().Hash(); got != head {
		b.t.Fatalf("geth's head is %s, not %s", got, head)
	}
}

// mine adds blocks with nothing in them.
func (b *beacon) mine(n int) {
	b.t.Helper()
	for range n {
		b.extend(b.build())
	}
}

// transfer signs a transfer by the funder, with its next nonce.
func (b *beacon) transfer(to common.Address, value *big.Int, tip, limit int64) []byte {
	b.t.Helper()
	tx, err := types.SignNewTx(
		b.funder,
		types.LatestSignerForChainID(big.NewInt(beaconChainID)),
		&types.DynamicFeeTx{
			ChainID: big.NewInt(beaconChainID), Nonce: b.funderNonce, To: &to, Gas: params.TxGas,
			Value:     value,
			GasTipCap: big.NewInt(tip), GasFeeCap: big.NewInt(limit),
		},
	)
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		b.t.Fatal(err)
	}
	b.funderNonce++
	return raw
}

// crowd adds a block that is full, so that the next one costs an eighth more.
func (b *beacon) crowd() {
	b.t.Helper()
	var raws [][]byte
	for range b.head().GasLimit / params.TxGas {
		raws = append(
			raws,
			b.transfer(common.HexToAddress("0xcc"), new(big.Int), params.GWei/1000,
				1000*params.GWei),
		)
	}
	b.extend(b.build(raws...))
}
