package e2e

import (
	"context"
	"fmt"
	"math/big"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// TestForeignUse_Protects sends transactions outside Fencepost with the keys of its submitters, on
// geth: before a nonce is taken, between that and the first broadcast, and after it. Each time the
// submitter is protected with evidence, nothing is skipped or reported as a success, and an
// operator's decision, made with the operator CLI, resumes it.
func TestForeignUse_Protects(t *testing.T) {
	t.Parallel()
	c := geth(t, 4)
	cl := newCluster(t, c, 1, nodeOptions{confirmations: 2, poll: 200 * time.Millisecond},
		freshDatabase(t))
	s := &foreign{t: t, cl: cl, m: cl.members[0]}
	s.contract = s.m.deploy(t, c)
	if t.Run("before a nonce is taken", s.before) &&
		t.Run("between taking and sending", s.during) &&
		t.Run("after it was sent", s.after) {
		cl.verifySendings(t)
		cl.stopAll(t)
	}
}

type foreign struct {
	t        *testing.T // of the whole: a process ends with the test that started it
	cl       *cluster
	m        *member
	contract common.Address
}

// before: a manual transaction is sent while no node runs. The next request does not get that
// nonce, but one above it.
func (s *foreign) before(t *testing.T) {
	const submitter = 0
	s.m.await(t, s.call(t, submitter, "first"), time.Minute)
	s.m.proc.stop(t)
	theirs := s.useElsewhere(t, submitter, 1)
	s.m.start(s.t)
	id := s.call(t, submitter, "second")
	s.protected(t, submitter, theirs)
	s.decide(t, "submitter", "exit-protect", "s00", "--protection", "1", "--align-forward",
		"--reason", "one transfer by hand")
	s.confirmed(t, id, 2)
	var first, last int
	if err := s.cl.pool.QueryRow(
		t.Context(), "SELECT first_nonce, last_nonce FROM nonce_gap",
	).Scan(&first, &last); err != nil ||
		first != 1 ||
		last != 1 {
		t.Errorf("the gap is %d to %d (%v)", first, last, err)
	}
	s.counted(t, submitter, 2)
}

// during: a foreign transaction uses the nonce just before the recorded bytes reach the chain.
func (s *foreign) during(t *testing.T) {
	const submitter = 1
	theirs := make(chan common.Hash, 1)
	s.m.tap.onNext(func(common.Hash) bool {
		theirs <- s.useElsewhere(t, submitter, 0)
		return false
	})
	id := s.call(t, submitter, "first")
	s.protected(t, submitter, <-theirs)
	s.decide(t, "tx", "resolve", id, "--fail", "--reason", "they sent something else")
	final := s.m.await(t, id, time.Minute)
	if final.GetState() != fencepostv1.TxState_TX_STATE_FAILED_FINAL ||
		final.GetExecuted() != fencepostv1.Executed_EXECUTED_NO {
		t.Errorf("it ended as %v", final)
	}
	s.decide(t, "submitter", "exit-protect", "s01", "--protection", "1", "--resume", "--reason",
		"the key is in the vault again")
	s.confirmed(t, s.call(t, submitter, "second"), 1)
	s.counted(t, submitter, 1)
}

// after: the broadcast is lost in transit, and the nonce is used elsewhere.
func (s *foreign) after(t *testing.T) {
	const submitter = 2
	s.m.tap.onNext(func(common.Hash) bool { return true })
	id := s.call(t, submitter, "first")
	eventually(t, 30*time.Second, "it counts as sent", func() error {
		return s.m.atLeast("state = 'TRACKING' AND tx_id = '"+id+"'", 1)
	})
	s.protected(t, submitter, s.useElsewhere(t, submitter, 0))
	s.decide(t, "tx", "resolve", id, "--requeue", "--reason", "it must run")
	s.decide(t, "submitter", "exit-protect", "s02", "--protection", "1", "--resume", "--reason",
		"the key is in the vault again")
	s.confirmed(t, id, 1)
	s.counted(t, submitter, 1)
}

func (s *foreign) call(t *testing.T, submitter int, request string) (id string) {
	t.Helper()
	return s.m.node.create(t, s.m.names[submitter], request,
		&fencepostv1.Payload{To: s.contract.Hex()}).GetTxId()
}

// useElsewhere sends a transfer with the submitter's key past Fencepost, and waits until it is in a
// block.
func (s *foreign) useElsewhere(t *testing.T, submitter int, nonce uint64) common.Hash {
	tx, err := s.cl.chain.spend(submitter, nonce)
	if err != nil {
		t.Errorf("use the key elsewhere: %v", err)
	}
	eventually(t, 30*time.Second, "the other use is in a block", func() error {
		_, err := s.cl.chain.TransactionReceipt(context.Background(), tx.Hash())
		return err
	})
	return tx.Hash()
}

// protected waits until an operator sees the protection and its evidence, and wants callers to be
// refused.
func (s *foreign) protected(t *testing.T, submitter int, theirs common.Hash) {
	t.Helper()
	name := s.m.names[submitter]
	eventually(t, time.Minute, "the submitter is protected", func() error {
		out, err := s.run("submitter", "show", name)
		for _, want := range []string{
			"NONCE_USED_ELSEWHERE", theirs.Hex(), "exit-protect " + name + " --protection 1",
		} {
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("it does not show %s:\n%s", want, out)
			}
		}
		return err
	})
	_, err := s.m.CreateTx(t.Context(),
		&fencepostv1.CreateTxRequest{Submitter: name, RequestId: "refused", Payload: transfer})
	if status.Code(err) != codes.FailedPrecondition || reasonOf(err) != "SUBMITTER_PROTECTED" {
		t.Errorf("CreateTx on a protected submitter: %v, %s", err, reasonOf(err))
	}
	var confirmed int
	query := "SELECT count(*) FROM tx_event e JOIN submitter s USING (submitter_id) WHERE s.name " +
		"= $1 AND e.kind = 'CONFIRMED' AND e.created_at > (SELECT protect_at FROM " +
		"submitter_nonce_cursor n WHERE n.submitter_id = s.submitter_id)"
	if err := s.cl.pool.QueryRow(t.Context(), query, name).Scan(&confirmed); err != nil ||
		confirmed != 0 {
		t.Errorf("%d were confirmed under protection (%v)", confirmed, err)
	}
}

// spend sends a transfer with one of the keys outside Fencepost, with fees high enough to replace
// any other transaction with that nonce.
func (c *testChain) spend(key int, nonce uint64) (*types.Transaction, error) {
	to, id := common.HexToAddress("0xbb"), new(big.Int).SetUint64(c.id)
	tx, err := types.SignNewTx(c.keys[key], types.LatestSignerForChainID(id), &types.DynamicFeeTx{
		ChainID: id, Nonce: nonce, To: &to, Gas: params.TxGas, Value: big.NewInt(1),
		GasTipCap: big.NewInt(10 * params.GWei), GasFeeCap: big.NewInt(200 * params.GWei),
	})
	if err == nil {
		err = c.SendTransaction(context.Background(), tx)
	}
	return tx, err
}

func (s *foreign) confirmed(t *testing.T, id string, nonce uint64) {
	t.Helper()
	tx := s.m.await(t, id, time.Minute)
	if tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED ||
		tx.GetOperator().GetNonce() != nonce {
		t.Errorf("it ended as %v; want it confirmed under nonce %d", tx, nonce)
	}
}

func (s *foreign) counted(t *testing.T, submitter int, calls uint64) {
	t.Helper()
	if got := s.cl.chain.count(
		t, s.contract, crypto.PubkeyToAddress(s.cl.chain.keys[submitter].PublicKey),
	); got != calls {
		t.Errorf("the contract counts %d calls, want %d", got, calls)
	}
}

// decide asks again while the chain does not bear the decision out yet: uses that are in a block
// have to become settled first.
func (s *foreign) decide(t *testing.T, args ...string) {
	t.Helper()
	eventually(t, time.Minute, "fencepost "+strings.Join(args, " "), func() error {
		out, err := s.run(args...)
		if err != nil && !strings.Contains(out, "DECISION_REFUSED") {
			t.Fatalf("fencepost %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return err
	})
}

func (s *foreign) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(
		ctx,
		program,
		append(args, "--server", s.m.addr)...).CombinedOutput()
	return string(out), err
}
