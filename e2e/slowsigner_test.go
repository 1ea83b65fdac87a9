package e2e

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	signerv1 "github.com/fencepost/fencepost/gen/go/fencepost/signer/v1"
	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// hangingSigner is a SignerService that does not reply until it is released.
type hangingSigner struct {
	signerv1.UnimplementedSignerServiceServer
	keys     *sign.Memory
	released chan struct{}

	mu       sync.Mutex
	requests map[string]int // by submitter
}

func startHangingSigner(t *testing.T, c *testChain) (s *hangingSigner, url string) {
	t.Helper()
	s = &hangingSigner{keys: sign.NewMemory(c.keys...), released: make(chan struct{}),
		requests: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	signerv1.RegisterSignerServiceServer(g, s)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return s, "http://" + l.Addr().String()
}

// CheckAccount reports every key as present.
func (s *hangingSigner) CheckAccount(context.Context,
	*signerv1.CheckAccountRequest) (*signerv1.CheckAccountResponse, error) {
	return &signerv1.CheckAccountResponse{}, nil
}

// SignTransaction signs once the signer is released.
func (s *hangingSigner) SignTransaction(ctx context.Context,
	r *signerv1.SignTransactionRequest) (*signerv1.SignTransactionResponse, error) {
	s.mu.Lock()
	s.requests[r.GetSubmitter()]++
	s.mu.Unlock()
	select {
	case <-s.released:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	u := txn.Unsigned{
		ChainID: txn.ChainID(r.GetChainId()), From: common.HexToAddress(r.GetFrom()),
		Nonce: txn.Nonce(r.GetNonce()), GasLimit: r.GetGasLimit(),
	}
	to := common.HexToAddress(r.GetTo())
	u.Payload.To, u.Payload.Data = &to, r.GetData()
	for text, into := range map[string]*txn.Wei{r.GetValue(): &u.Payload.Value,
		r.GetMaxFeePerGas(): &u.Fees.Cap, r.GetMaxPriorityFeePerGas(): &u.Fees.Tip} {
		*into = *uint256.MustFromDecimal(text)
	}
	raw, err := s.keys.Sign(ctx, u)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &signerv1.SignTransactionResponse{SignedTransaction: raw}, nil
}

func (s *hangingSigner) requested(submitter string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[submitter]
}

// TestSigner_Hangs_TakeoverAndOthersProceed: the signer of two accounts, of which one is pipelined,
// never replies. Their leases are kept, the transactions of other accounts are confirmed, and when
// the node is killed, another takes over all accounts. Once the signer replies, each transaction is
// executed once.
func TestSigner_Hangs_TakeoverAndOthersProceed(t *testing.T) {
	t.Parallel()
	const slow, each = 2, 8 // of four accounts
	c := embedded(t, 100*time.Millisecond, 4)
	s, url := startHangingSigner(t, c)
	cl := prepareCluster(t, c, 2, nodeOptions{
		confirmations: 2, poll: 50 * time.Millisecond,
		pipelined: func(i int) int { return 16 * (i % 2) },
	}, freshDatabase(t))
	list := filepath.Join(t.TempDir(), "remote.keys")
	var lines strings.Builder
	for _, key := range c.keys[:slow] {
		fmt.Fprintln(&lines, crypto.PubkeyToAddress(key.PublicKey).Hex())
	}
	writeFile(t, list, lines.String())
	for _, m := range cl.members {
		for range slow {
			m.edit(t, "signer: local", "signer: remote")
		}
		m.edit(t, "\nsigners:\n", fmt.Sprintf("\nsigners:\n  - {name: remote, timeout: 30s, "+
			"max_in_flight: 64, service: {url: %q}, keys_file: %q}\n", url, list))
	}
	cl.startAll(t)
	names := cl.members[0].names
	var ids []string
	send := func(submitters []string, round string) (sent []string) {
		for _, submitter := range submitters {
			for n := range each {
				tx := cl.create(t, submitter, fmt.Sprintf("%s-%d", round, n),
					&fencepostv1.Payload{To: senders(c)[0].Hex(), Value: "1"})
				sent = append(sent, tx.GetTxId())
			}
		}
		ids = append(ids, sent...)
		return sent
	}
	send(names[:slow], "held")
	eventually(t, time.Minute, "the signer has a request of each account", func() error {
		if s.requested(names[0]) == 0 || s.requested(names[1]) == 0 {
			return fmt.Errorf("%d and %d", s.requested(names[0]), s.requested(names[1]))
		}
		return nil
	})
	tokens := cl.tokens(t, names[:slow])
	cl.confirmed(t, send(names[slow:], "before"))
	if now := cl.tokens(t, names[:slow]); now != tokens {
		t.Errorf("the leases of the slow accounts changed: %s, then %s", tokens, now)
	}
	victim, other := cl.members[0], cl.members[1]
	if cl.ownerOf(t, names[0]) == other.name {
		victim, other = other, victim
	}
	before := s.requested(names[0])
	victim.proc.kill()
	cl.members = []*member{other}
	cl.confirmed(t, send(names[slow:], "after"))
	eventually(t, time.Minute, "the other node owns all and asks the signer", func() error {
		for _, name := range names {
			if owner := cl.ownerOf(t, name); owner != other.name {
				return fmt.Errorf("%s is owned by %q", name, owner)
			}
		}
		if s.requested(names[0]) == before {
			return errNotYet
		}
		return nil
	})
	close(s.released)
	cl.confirmed(t, ids)
	for i, name := range names {
		nonce, err := cl.chain.NonceAt(t.Context(), senders(c)[i], nil)
		if want := uint64(each); err != nil || i < slow && nonce != want || i >= slow &&
			nonce != 2*want {
			t.Errorf("%s has executed %d transactions: %v", name, nonce, err)
		}
	}
	cl.verifySendings(t)
	cl.stopAll(t)
}

// tokens returns the fencing tokens of accounts.
func (cl *cluster) tokens(t *testing.T, names []string) (tokens string) {
	t.Helper()
	if err := cl.pool.QueryRow(t.Context(), `SELECT string_agg(fencing_token::TEXT, ' '
		ORDER BY submitter_id) FROM submitter_lease JOIN submitter USING (submitter_id)
		WHERE name = ANY($1)`, names).Scan(&tokens); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// ownerOf returns the node that owns an account.
func (cl *cluster) ownerOf(t *testing.T, name string) (owner string) {
	t.Helper()
	if err := cl.pool.QueryRow(t.Context(), `SELECT split_part(owner_node, '/', 1)
		FROM submitter_lease JOIN submitter USING (submitter_id) WHERE name = $1`,
		name).Scan(&owner); err != nil {
		t.Fatal(err)
	}
	return owner
}

// confirmed waits until transactions are confirmed.
func (cl *cluster) confirmed(t *testing.T, ids []string) {
	t.Helper()
	eventually(t, 2*time.Minute, "the transactions are confirmed", func() error {
		var n int
		if err := cl.pool.QueryRow(t.Context(), `SELECT count(*) FROM managed_tx
			WHERE tx_id::TEXT = ANY($1) AND state = 'CONFIRMED'`, ids).Scan(&n); err != nil {
			return err
		}
		if n < len(ids) {
			return fmt.Errorf("%d of %d", n, len(ids))
		}
		return nil
	})
}
