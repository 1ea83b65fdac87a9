package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// externalCluster is three nodes with two external accounts.
type externalCluster struct {
	*cluster
	t     *testing.T
	alive sync.Map // names of client processes
}

const (
	externalFirst = 1 // index of the first external account
	hardMaxAge    = 2 * time.Second
)

func newExternalCluster(t *testing.T) *externalCluster {
	t.Helper()
	return &externalCluster{cluster: newCluster(t,
		embedded(t, 250*time.Millisecond, externalFirst+2), 3,
		nodeOptions{
			confirmations: 3, poll: 50 * time.Millisecond, external: externalFirst,
			nonces: fmt.Sprintf(", pending_hard_max_age: %s", hardMaxAge),
		}, freshDatabase(t)), t: t}
}

// nonces is the service of a node.
func (x *externalCluster) nonces(m *member) fencepostv1.NonceServiceClient {
	return fencepostv1.NewNonceServiceClient(m.conn)
}

// repeat repeats a call on all nodes until one answers it.
func (x *externalCluster) repeat(what string,
	call func(context.Context, fencepostv1.NonceServiceClient) error) {
	x.t.Helper()
	i := 0
	eventually(x.t, 2*time.Minute, what, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), tryFor)
		defer cancel()
		i++
		return call(ctx, x.nonces(x.members[i%len(x.members)]))
	})
}

func (x *externalCluster) allocate(account int, key string, ttl time.Duration) *fencepostv1.Nonce {
	x.t.Helper()
	var n *fencepostv1.Nonce
	x.repeat("AllocateNonce", func(ctx context.Context, s fencepostv1.NonceServiceClient) error {
		got, err := s.AllocateNonce(ctx, &fencepostv1.AllocateNonceRequest{
			Submitter: x.members[0].names[account], RequestId: key, Ttl: durationpb.New(ttl)})
		n = got.GetNonce()
		return err
	})
	return n
}

func (x *externalCluster) record(n *fencepostv1.Nonce, tx *types.Transaction) {
	x.t.Helper()
	x.repeat("RecordNonceHash", func(ctx context.Context, s fencepostv1.NonceServiceClient) error {
		_, err := s.RecordNonceHash(ctx, &fencepostv1.RecordNonceHashRequest{
			ReservationId: n.GetReservationId(), TxHash: tx.Hash().Hex()})
		return err
	})
}

func (x *externalCluster) quarantine(n *fencepostv1.Nonce) {
	x.t.Helper()
	x.repeat("QuarantineNonce", func(ctx context.Context, s fencepostv1.NonceServiceClient) error {
		_, err := s.QuarantineNonce(ctx, &fencepostv1.QuarantineNonceRequest{
			ReservationId: n.GetReservationId()})
		return err
	})
}

// resolve makes an operator's decision, if the nonce is as it was read.
func (x *externalCluster) resolve(n *fencepostv1.Nonce, decision fencepostv1.NonceDecision) error {
	ctx, cancel := context.WithTimeout(context.Background(), tryFor)
	defer cancel()
	_, err := x.nonces(x.any()).ResolveNonce(ctx, &fencepostv1.ResolveNonceRequest{
		Submitter: n.GetSubmitter(), Nonce: n.GetNonce(), Decision: decision,
		ReservationId: n.GetReservationId(), Reason: "journal read", Operator: "test"})
	return err
}

// await waits until a nonce is as wanted.
func (x *externalCluster) await(of *fencepostv1.Nonce, what string,
	holds func(*fencepostv1.Nonce) bool) *fencepostv1.Nonce {
	x.t.Helper()
	var n *fencepostv1.Nonce
	x.repeat(what, func(ctx context.Context, s fencepostv1.NonceServiceClient) error {
		got, err := s.GetNonce(ctx, &fencepostv1.GetNonceRequest{
			Submitter: of.GetSubmitter(), Nonce: of.GetNonce()})
		if n = got.GetNonce(); err == nil && !holds(n) {
			err = fmt.Errorf("it is %v", n)
		}
		return err
	})
	return n
}

func isState(state fencepostv1.NonceState, reason string) func(*fencepostv1.Nonce) bool {
	return func(n *fencepostv1.Nonce) bool {
		return n.GetState() == state && (reason == "" || n.GetReason() == reason)
	}
}

func needsOperator(n *fencepostv1.Nonce) bool { return n.GetNeedsOperator() }

// killOwner kills the node that owns an account, and starts it again.
func (x *externalCluster) killOwner(account int) {
	x.t.Helper()
	var owner string
	if err := x.pool.QueryRow(x.t.Context(), `SELECT split_part(l.owner_node, '/', 1)
		FROM submitter_lease l JOIN submitter s USING (submitter_id) WHERE s.name = $1`,
		x.members[0].names[account]).Scan(&owner); err != nil {
		x.t.Fatal(err)
	}
	for _, m := range x.members {
		if m.name == owner {
			m.proc.kill()
			m.start(x.t)
		}
	}
}

const (
	reservedNonce   = fencepostv1.NonceState_NONCE_STATE_RESERVED
	pendingNonce    = fencepostv1.NonceState_NONCE_STATE_PENDING
	acceptedNonce   = fencepostv1.NonceState_NONCE_STATE_ACCEPTED
	recyclableNonce = fencepostv1.NonceState_NONCE_STATE_RECYCLABLE
	neverSigned     = fencepostv1.NonceDecision_NONCE_DECISION_NEVER_SIGNED
	fillNonce       = fencepostv1.NonceDecision_NONCE_DECISION_FILL
)

// TestExternal is clients that sign themselves, on three nodes.
func TestExternal(t *testing.T) {
	t.Parallel()
	x := newExternalCluster(t)
	// no subtests: nodes end with the test that started them
	x.lateReports()
	x.aboveHole()
	x.dieAtRandom()
	x.verifySendings(t)
	x.verifyFence(t)
	x.verifyAudit(t)
	x.stopAll(t)
}

// lateReports is H46 and H47 of the requirements: the report of a holder whose reservation is over
// is recorded by whichever node owns the account then.
func (x *externalCluster) lateReports() {
	expired := x.allocate(externalFirst, "expired", time.Second)
	x.await(expired, "it expires", isState(pendingNonce, "EXPIRED"))
	takenOver := x.allocate(externalFirst, "taken over", time.Minute)
	x.killOwner(externalFirst)
	for _, n := range []*fencepostv1.Nonce{expired, takenOver} {
		tx, err := x.chain.spend(externalFirst, n.GetNonce())
		if err != nil {
			x.t.Fatal(err)
		}
		x.record(n, tx)
	}
	for _, n := range []*fencepostv1.Nonce{expired, takenOver} {
		x.await(n, "it is accepted", isState(acceptedNonce, "BY_RECEIPT"))
	}
}

// aboveHole is H44 of the requirements: a transaction above a hole is in no count of the pool.
// Neither it nor the hole is recycled; the operator fills the hole.
func (x *externalCluster) aboveHole() {
	hole := x.allocate(externalFirst, "hole", time.Minute)
	above := x.allocate(externalFirst, "above", time.Minute)
	tx, err := x.chain.spend(externalFirst, above.GetNonce())
	if err != nil {
		x.t.Fatal(err)
	}
	x.quarantine(hole)
	x.quarantine(above)
	for _, n := range []*fencepostv1.Nonce{hole, above} {
		x.await(n, "it needs an operator", needsOperator)
	}
	if next := x.allocate(externalFirst, "next", time.Minute); next.GetNonce() <= above.GetNonce() {
		x.t.Fatalf("nonce %d is reserved again", next.GetNonce())
	}
	eventually(x.t, time.Minute, "the hole is filled",
		func() error { return x.resolve(hole, fillNonce) })
	for _, n := range []*fencepostv1.Nonce{hole, above} {
		x.await(n, "it is accepted", isState(acceptedNonce, "BY_SETTLED_NONCE"))
	}
	if receipt, err := x.chain.TransactionReceipt(x.t.Context(), tx.Hash()); err != nil ||
		receipt.Status != 1 {
		x.t.Fatalf("the transaction above the hole: %v, %v", receipt, err)
	}
}

// dieAtRandom has client processes and nodes die at random moments, clients also between any two
// of their steps.
func (x *externalCluster) dieAtRandom() {
	const (
		account = externalFirst + 1
		length  = 8 * time.Second
		least   = 25 // nonces
	)
	seed := rand.Uint64()
	x.t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	journal := filepath.Join(x.t.TempDir(), "journal")
	clients := x.startClients(account, journal, "client", random)
	for begun := time.Now(); time.Since(begun) < length || x.count(account) < least; {
		select {
		case err := <-clients.defects:
			x.t.Fatal(err)
		case <-time.After(time.Duration(500+random.IntN(2000)) * time.Millisecond):
		}
		m := x.members[random.IntN(len(x.members))]
		m.proc.kill()
		m.start(x.t)
		_ = x.decide(account, journal, false) // repeated below
		if time.Since(begun) > 3*time.Minute {
			break
		}
	}
	if err := clients.stop(); err != nil {
		x.t.Fatal(err)
	}
	eventually(x.t, 4*time.Minute, "every nonce is used or free",
		func() error { return x.decide(account, journal, true) })
	x.verifyNumbers(account, x.readJournal(journal))
}

// externalClients are two clients of one account, whose processes die at random.
type externalClients struct {
	ended   chan struct{}
	defects chan error
	running sync.WaitGroup
}

// startClients starts clients whose names begin with prefix.
func (x *externalCluster) startClients(account int, journal, prefix string,
	random *rand.Rand) *externalClients {
	c := &externalClients{ended: make(chan struct{}), defects: make(chan error, 2)}
	for i := range 2 {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		c.running.Go(func() {
			for boot := 0; ; boot++ {
				select {
				case <-c.ended:
					return
				default:
				}
				if err := x.runClient(c.ended, account, journal,
					fmt.Sprintf("%s%d.%d", prefix, i, boot), own); err != nil {
					c.defects <- err
					return
				}
			}
		})
	}
	return c
}

// stop kills the clients, and returns a defect that one of them found.
func (c *externalClients) stop() error {
	close(c.ended)
	c.running.Wait()
	select {
	case err := <-c.defects:
		return err
	default:
		return nil
	}
}

func (x *externalCluster) count(account int) (n int) {
	_ = x.pool.QueryRow(x.t.Context(), `SELECT count(*) FROM external_nonce
		JOIN submitter s USING (submitter_id) WHERE s.name = $1`,
		x.members[0].names[account]).Scan(&n)
	return n
}

// runClient runs one client process until it dies, or is killed. An error is a defect.
func (x *externalCluster) runClient(ended <-chan struct{}, account int, journal, name string,
	random *rand.Rand) error {
	spec := externalSpec{
		Name: name, Submitter: x.members[0].names[account], Chain: x.chain.url, Journal: journal,
		ChainID: x.chain.id, Seed: random.Uint64(),
		Key: crypto.FromECDSA(x.chain.keys[account]),
	}
	for _, m := range x.members {
		spec.Nodes = append(spec.Nodes, m.addr)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(),
		time.Duration(1000+random.IntN(5000))*time.Millisecond)
	defer cancel()
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	client := exec.CommandContext(ctx, self) // its end is kill -9
	client.Env = append(os.Environ(), externalClientEnv+"="+string(text))
	client.Stderr = &out
	x.alive.Store(name, true)
	_ = client.Run()
	x.alive.Delete(name)
	if client.ProcessState == nil || client.ProcessState.ExitCode() > 0 {
		return fmt.Errorf("%s: %s", name, out.String())
	}
	return nil
}

// readJournal returns the reservations under which a nonce was signed for, by nonce.
func (x *externalCluster) readJournal(path string) map[uint64]map[string]bool {
	x.t.Helper()
	signed := map[uint64]map[string]bool{}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return signed
	}
	if err != nil {
		x.t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e journalEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			x.t.Fatal(err)
		}
		if signed[e.Nonce] == nil {
			signed[e.Nonce] = map[string]bool{}
		}
		signed[e.Nonce][e.Reservation] = true
	}
	return signed
}

// decide makes the decisions that are left to an operator, who knows which clients have died and
// what they have signed. over: no client will reserve a nonce any more. The error says what is
// left.
func (x *externalCluster) decide(account int, journal string, over bool) error {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	list, err := x.nonces(x.any()).ListNonces(ctx, &fencepostv1.ListNoncesRequest{
		Submitter: x.members[0].names[account], PageSize: 1000,
		States: []fencepostv1.NonceState{reservedNonce, pendingNonce, recyclableNonce}})
	if err != nil {
		return err
	}
	waiting, above := 0, false
	for _, n := range list.GetNonces() { // highest first
		_, alive := x.alive.Load(n.GetHolder())
		free := n.GetState() == recyclableNonce
		switch {
		case free && !above:
			continue
		case free && over:
			err = errors.Join(err, x.resolve(n, fillNonce))
		case n.GetNeedsOperator() && n.GetTxId() == "" && !alive:
			decision := fillNonce
			// the first half of an earlier decision to fill cannot be taken back
			if n.GetReason() != txn.NonceByOperator &&
				!x.readJournal(journal)[n.GetNonce()][n.GetReservationId()] {
				decision = neverSigned
			}
			err = errors.Join(err, x.resolve(n, decision))
		}
		above = above || !free
		waiting++
	}
	if err == nil && waiting > 0 {
		err = fmt.Errorf("%d are neither", waiting)
	}
	return errors.Join(err, x.failLost(account))
}

// failLost fails transactions of an account that lost their nonce to another one of the client, as
// an operator does who looks at the chain.
func (x *externalCluster) failLost(account int) error {
	const open = "SELECT tx_id::TEXT FROM managed_tx JOIN submitter s USING (submitter_id) " +
		"WHERE terminal_at IS NULL AND s.name = $1"
	read := func(query string) ([]string, error) {
		rows, err := x.pool.Query(context.Background(), query, x.members[0].names[account])
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}
	stuck, err := read(open + " AND state = 'STUCK'")
	for _, id := range stuck {
		// without proof once no endpoint has the state of that block any more
		if failed := x.fail(id, failStuck); status.Code(failed) == codes.FailedPrecondition {
			err = errors.Join(err, x.fail(id, failUnproven))
		} else {
			err = errors.Join(err, failed)
		}
	}
	left, failed := read(open)
	if err = errors.Join(err, failed); err == nil && len(left) > 0 {
		err = fmt.Errorf("%d transactions are not final", len(left))
	}
	return err
}

const (
	failStuck    = fencepostv1.StuckDecision_STUCK_DECISION_FAIL
	failUnproven = fencepostv1.StuckDecision_STUCK_DECISION_FAIL_UNPROVEN
)

func (x *externalCluster) fail(id string, decision fencepostv1.StuckDecision) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := x.any().ResolveStuck(ctx, &fencepostv1.ResolveStuckRequest{TxId: id,
		Decision: decision, Reason: "compared with the chain", Operator: "test"})
	return err
}

// verifyNumbers: no nonce has two holders that signed, none is RECYCLABLE that was signed for, and
// each below the cursor is recorded, ACCEPTED exactly if the chain has used it.
func (x *externalCluster) verifyNumbers(account int, signed map[uint64]map[string]bool) {
	x.t.Helper()
	for nonce, holders := range signed {
		if len(holders) > 1 {
			x.t.Errorf("nonce %d was signed for under %v", nonce, holders)
		}
	}
	next, err := x.chain.NonceAt(x.t.Context(),
		crypto.PubkeyToAddress(x.chain.keys[account].PublicKey), nil)
	if err != nil {
		x.t.Fatal(err)
	}
	rows, err := x.pool.Query(x.t.Context(), `SELECT x.nonce, x.state, x.reservation_id::TEXT
		FROM external_nonce x JOIN submitter s USING (submitter_id) WHERE s.name = $1
		ORDER BY x.nonce`, x.members[0].names[account])
	if err != nil {
		x.t.Fatal(err)
	}
	type row struct {
		Nonce              int64
		State, Reservation string
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		x.t.Fatal(err)
	}
	states := map[string]int{}
	for i, r := range list {
		states[r.State]++
		used := uint64(r.Nonce) < next
		switch {
		case r.Nonce != int64(i):
			x.t.Fatalf("nonce %d is missing", i)
		case used != (r.State == "ACCEPTED"):
			x.t.Errorf("nonce %d is %s, and the chain's next one is %d", i, r.State, next)
		case !used && signed[uint64(i)][r.Reservation]:
			x.t.Errorf("nonce %d is %s, and its holder signed", i, r.State)
		}
	}
	if int(next) > len(list) {
		x.t.Errorf("the chain has used %d nonces, of %d that were reserved", next, len(list))
	}
	x.t.Logf("%d nonces: %v", len(list), states)
}
