package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/counter"
)

// deploy puts the counter contract on chain through Fencepost, from the last submitter.
func (n *node) deploy(t *testing.T, c *testChain) common.Address {
	t.Helper()
	last := len(n.names) - 1 - n.externals
	from := crypto.PubkeyToAddress(c.keys[last].PublicKey)
	nonce, err := c.NonceAt(t.Context(), from, nil)
	if err != nil {
		t.Fatal(err)
	}
	tx := n.create(t, n.names[last], "deploy", &fencepostv1.Payload{Data: counter.InitCode()})
	final := n.await(t, tx.GetTxId(), 2*time.Minute)
	if final.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
		t.Fatalf("the contract was not deployed: %v", final)
	}
	return crypto.CreateAddress(from, nonce)
}

// create requests a transaction until it is accepted, also while the node has no room for further
// calls of one address. The request id makes that safe.
func (n *node) create(t *testing.T, submitter, request string,
	p *fencepostv1.Payload) *fencepostv1.Tx {
	t.Helper()
	var tx *fencepostv1.Tx
	eventually(t, time.Minute, "CreateTx is accepted", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		answer, err := n.CreateTx(ctx,
			&fencepostv1.CreateTxRequest{Submitter: submitter, RequestId: request, Payload: p})
		switch code := status.Code(err); code {
		case codes.OK, codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		default:
			t.Errorf("CreateTx %s/%s: %v", submitter, request, err)
			return nil
		}
		tx = answer.GetTx()
		return err
	})
	return tx
}

func (n *node) await(t *testing.T, id string, limit time.Duration) *fencepostv1.Tx {
	t.Helper()
	var tx *fencepostv1.Tx
	eventually(t, limit, "the transaction is final", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		answer, err := n.GetTx(
			ctx,
			&fencepostv1.GetTxRequest{
				Key:  &fencepostv1.GetTxRequest_TxId{TxId: id},
				View: fencepostv1.TxView_TX_VIEW_OPERATOR,
			},
		)
		if err != nil {
			return err
		}
		if tx = answer.GetTx(); tx.GetFinalTime() == nil {
			return fmt.Errorf("state %s: %s", tx.GetState(), tx.GetLastError())
		}
		return nil
	})
	return tx
}

// count reads an account's counter at the newest block.
func (c *testChain) count(t *testing.T, contract, account common.Address) uint64 {
	t.Helper()
	answer, err := c.CallContract(context.Background(),
		ethereum.CallMsg{To: &contract, Data: counter.Query(account)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return counter.Count(answer)
}

// TestCounters_Exact is the main job: many accounts, many calls of a contract that counts per
// caller.
func TestCounters_Exact(t *testing.T) {
	const submitters, calls = 20, 50
	for name, c := range map[string]struct {
		chain func(t *testing.T, keys int) *testChain
		kills int
	}{
		"embedded": {
			func(t *testing.T, keys int) *testChain {
				return embedded(
					t, 50*time.Millisecond, keys,
				)
			},
			0,
		},
		"embedded, node killed": {
			func(t *testing.T, keys int) *testChain {
				return embedded(
					t, 200*time.Millisecond, keys,
				)
			},
			5,
		},
		"geth":              {geth, 0},
		"geth, node killed": {geth, 5},
	} {
		t.Run(name, func(t *testing.T) {
			ch := c.chain(t, submitters+1)
			n := newNode(t, ch, nodeOptions{confirmations: 3, poll: 25 * time.Millisecond})
			contract := n.deploy(t, ch)
			watcher := n.watchAll(t)
			ids := n.load(t, contract, submitters, calls, c.kills)
			n.awaitAll(t, submitters*calls+1, 6*time.Minute)
			verifyChain(t, ch, contract, submitters, calls)
			n.verifyLedger(t, ch, submitters, calls)
			watcher.verify(t, n, ids)
			n.proc.stop(t)
		})
	}
}

// load creates all calls, each submitter's one after the other, while the node is killed and
// started again at random moments.
func (n *node) load(t *testing.T, contract common.Address, submitters, calls, kills int) []string {
	t.Helper()
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for _, name := range n.names[:submitters] {
		wg.Go(func() {
			for i := range calls {
				tx := n.create(t, name, fmt.Sprintf("call-%d", i),
					&fencepostv1.Payload{To: contract.Hex()})
				mu.Lock()
				ids = append(ids, tx.GetTxId())
				mu.Unlock()
			}
		})
	}
	n.killAtRandom(t, submitters*calls, kills)
	wg.Wait()
	return ids
}

// killAtRandom kills the node and restarts it at random moments between the first transaction and
// the last. A failing run logs its seed.
func (n *node) killAtRandom(t *testing.T, total, kills int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("moments of the kills: seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	moments := make([]int, kills)
	for i := range moments {
		moments[i] = random.IntN(total * 9 / 10)
	}
	slices.Sort(moments)
	for _, included := range moments {
		eventually(t, 5*time.Minute, "the moment of a kill",
			func() error { return n.atLeast("receipt_block IS NOT NULL", included) })
		n.proc.kill()
		n.start(t)
	}
}

// atLeast reports whether at least n transactions meet a condition.
func (n *node) atLeast(condition string, want int) error {
	var got int
	if err := n.pool.QueryRow(
		context.Background(), "SELECT count(*) FROM managed_tx WHERE "+condition,
	).Scan(&got); err != nil {
		return err
	}
	if got < want {
		return fmt.Errorf("%d of %d", got, want)
	}
	return nil
}

func (n *node) awaitAll(t *testing.T, total int, limit time.Duration) {
	t.Helper()
	eventually(t, limit, "everything is final",
		func() error { return n.atLeast("terminal_at IS NOT NULL", total) })
}

func verifyChain(t *testing.T, c *testChain, contract common.Address, submitters, calls int) {
	t.Helper()
	for i := range submitters {
		verifyAccount(t, c, contract, i, calls)
	}
}

func verifyAccount(t *testing.T, c *testChain, contract common.Address, submitter, calls int) {
	t.Helper()
	a := senders(c)[submitter]
	if got := c.count(t, contract, a); got != uint64(calls) {
		t.Errorf("submitter %d: the contract counts %d calls, want %d", submitter, got, calls)
	}
	if nonce, err := c.NonceAt(context.Background(), a, nil); err != nil || nonce != uint64(calls) {
		t.Errorf("submitter %d: next nonce %d (%v), want %d", submitter, nonce, err, calls)
	}
}

// verifyLedger holds the ledger to the laws, and the chain to the ledger.
func (n *node) verifyLedger(t *testing.T, c *testChain, submitters, calls int) {
	t.Helper()
	verifyRows(t, n.pool)
	verifyMined(t, n.pool, c, senders(c)[:submitters], submitters*calls)
}

func verifyRows(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), `CREATE OR REPLACE VIEW e2e_tx AS
		SELECT t.* FROM managed_tx t JOIN submitter s USING (submitter_id)
		 WHERE s.mode <> 'EXTERNAL'`); err != nil { // clients have nonces of their own there
		t.Fatal(err)
	}
	for what, query := range map[string]string{
		"not confirmed": "SELECT count(*) FROM e2e_tx WHERE state <> " +
			"'CONFIRMED' AND NOT restored AND request_id <> '" + invalidRequest + "'",
		"nonces that skip or repeat": "SELECT count(*) FROM (SELECT nonce, row_number() " +
			"OVER (PARTITION BY submitter_id ORDER BY nonce) - 1 AS want FROM (SELECT " +
			"submitter_id, nonce FROM e2e_tx WHERE nonce IS NOT NULL UNION ALL SELECT " +
			"submitter_id, generate_series(first_nonce, last_nonce) FROM nonce_gap) used) q " +
			"WHERE nonce <> want",
		"gaps that nobody decided on": "SELECT count(*) FROM nonce_gap g WHERE NOT EXISTS " +
			"(SELECT FROM submitter_command c WHERE c.submitter_id = g.submitter_id AND c.kind " +
			"IN ('EXIT_PROTECT', 'RESOLVE'))",
		"nonces out of queue order": "SELECT count(*) FROM (SELECT nonce, lag(nonce) OVER " +
			"(PARTITION BY submitter_id ORDER BY queue_seq) AS before FROM e2e_tx WHERE " +
			"nonce IS NOT NULL) q WHERE nonce <= before",
		"events with a hole": "SELECT count(*) FROM (SELECT t.version, (SELECT " +
			"count(*) FROM tx_event e WHERE e.submitter_id = t.submitter_id AND e.tx_id = " +
			"t.tx_id AND e.seq BETWEEN 1 AND t.version) AS events FROM e2e_tx t) q WHERE " +
			"events <> version",
		"tokens that fall": "SELECT count(*) FROM (SELECT fencing_token, " +
			"lag(fencing_token) OVER (PARTITION BY submitter_id, tx_id ORDER BY seq) AS before " +
			"FROM tx_event WHERE fencing_token > 0) q WHERE fencing_token < before",
		"transactions with many attempts": "SELECT count(*) FROM (SELECT tx_id FROM tx_attempt " +
			"JOIN e2e_tx t USING (submitter_id, tx_id) WHERE NOT t.restored " +
			"AND t.request_id <> '" + invalidRequest + "' " +
			"GROUP BY tx_id HAVING count(*) <> 1) q",
	} {
		var wrong int
		if err := pool.QueryRow(context.Background(), query).Scan(&wrong); err != nil ||
			wrong != 0 {
			t.Errorf("%s: %d (%v)", what, wrong, err)
		}
	}
}

// verifyMined requires the chain to have exactly this many transactions of these accounts, all of
// them known. The ledger has lost one only if its nonce is a recorded gap, or the nonce of a
// transaction that an operator ended for that.
func verifyMined(t *testing.T, pool *pgxpool.Pool, c *testChain, from []common.Address, want int) {
	t.Helper()
	known := attemptHashes(t, pool)
	mined := transactionsFrom(t, c, from)
	if len(mined) != want {
		t.Errorf("%d transactions of the submitters are on chain, want %d", len(mined), want)
	}
	for _, tx := range mined {
		if known[tx.Hash] {
			continue
		}
		var lost bool
		if err := pool.QueryRow(context.Background(), `SELECT EXISTS (
			SELECT FROM submitter s JOIN nonce_gap g USING (submitter_id)
			 WHERE s.address = $1 AND $2 BETWEEN g.first_nonce AND g.last_nonce
			UNION ALL SELECT FROM submitter s JOIN managed_tx t USING (submitter_id)
			 WHERE s.address = $1 AND t.nonce = $2 AND t.restored AND t.state = 'FAILED_FINAL')`,
			tx.From.Bytes(), uint64(tx.Nonce)).Scan(&lost); err != nil || !lost {
			t.Errorf("%s is on chain and not in tx_attempt (%v)", tx.Hash, err)
		}
	}
}

func attemptHashes(t *testing.T, pool *pgxpool.Pool) map[common.Hash]bool {
	t.Helper()
	rows, err := pool.Query(context.Background(), "SELECT tx_hash FROM tx_attempt")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	known := map[common.Hash]bool{}
	for rows.Next() {
		var h []byte
		if err := rows.Scan(&h); err != nil {
			t.Fatal(err)
		}
		known[common.BytesToHash(h)] = true
	}
	return known
}

// minedFrom reads the whole chain for transactions of these senders.
func minedFrom(t *testing.T, c *testChain, from []common.Address) []common.Hash {
	t.Helper()
	var mined []common.Hash
	for _, tx := range transactionsFrom(t, c, from) {
		mined = append(mined, tx.Hash)
	}
	return mined
}

func transactionsFrom(t *testing.T, c *testChain, from []common.Address) (all []minedTx) {
	t.Helper()
	head, err := c.BlockNumber(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for number := range head + 1 {
		list, err := c.transactions(number)
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range list {
			if slices.Contains(from, tx.From) {
				all = append(all, tx)
			}
		}
	}
	return all
}

// minedTx is a transaction in a block.
type minedTx struct {
	Hash  common.Hash     `json:"hash"`
	From  common.Address  `json:"from"`
	To    *common.Address `json:"to"`
	Nonce hexutil.Uint64  `json:"nonce"`
	Value hexutil.Big     `json:"value"`
}

// transactions reads a block.
func (c *testChain) transactions(number uint64) ([]minedTx, error) {
	var block struct {
		Transactions []minedTx `json:"transactions"`
	}
	err := c.Client.Client().CallContext(context.Background(), &block, "eth_getBlockByNumber",
		hexutil.EncodeUint64(number), true)
	return block.Transactions, err
}
