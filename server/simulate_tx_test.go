package server

import (
	"context"
	"errors"
	"testing"

	"github.com/holiman/uint256"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func TestSimulateTx(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	limit := *uint256.NewInt(9)
	_, _, err := h.store.Register(h.ctx, store.Registration{
		Name: "alice", Chain: 7, Address: txn.Address{1}, Signer: "local", Mode: txn.Strict,
		StartFrom: "0",
	})
	h.must(err)
	_, err = h.db.Pool.Exec(h.ctx, "UPDATE submitter SET max_fee = 9")
	h.must(err)
	accepted := txn.Quote{GasLimit: 100, Fees: txn.Fees{
		Cap: *uint256.NewInt(5), Tip: *uint256.NewInt(2)}, L1Fee: *uint256.NewInt(3)}
	short := uint256.NewInt(17)
	for name, c := range map[string]struct {
		quote   txn.Quote
		outcome txn.Outcome
		err     error
		want    *pb.SimulateTxResponse // nil: an error
	}{
		"accepted": {accepted, txn.Outcome{Class: txn.Accepted}, nil, &pb.SimulateTxResponse{
			OutcomeClass: "ACCEPTED", GasLimit: 100, FeeCap: "5", Tip: "2", L1Fee: "3",
			MaxCost: "504"}}, // with a value of 1
		"reverted": {txn.Quote{}, txn.Outcome{Class: txn.ExecutionReverted, Detail: "Paused()"},
			nil, &pb.SimulateTxResponse{OutcomeClass: "REVERTED", Message: "Paused()"}},
		"poor": {txn.Quote{}, txn.Outcome{Class: txn.InsufficientFunds, Detail: "poor",
			Short: short}, nil, &pb.SimulateTxResponse{OutcomeClass: "INSUFFICIENT_FUNDS",
			Message: "poor", MissingFunds: "17"}},
		"other node": {txn.Quote{}, txn.Outcome{}, ErrUnknownChain, &pb.SimulateTxResponse{
			OutcomeClass: "UNAVAILABLE",
			Message:      "this node is not configured for chain 7; call another node"}},
		"failure": {txn.Quote{}, txn.Outcome{}, errors.New("broken"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got txn.Draft
			var of txn.ChainID
			n := h.serve(func(o *Options) {
				o.Simulate = func(_ context.Context, chain txn.ChainID,
					draft txn.Draft) (txn.Quote, txn.Outcome, error) {
					of, got = chain, draft
					return c.quote, c.outcome, c.err
				}
			})
			ask := payload()
			ask.Value = "1"
			response, err := n.txs.SimulateTx(h.ctx, &pb.SimulateTxRequest{Submitter: "alice",
				Payload: ask, Terms: &pb.Terms{MaxFee: "12", Speed: pb.TxSpeed_TX_SPEED_FAST}})
			if c.want == nil {
				wantStatus(t, err, codes.Internal, "INTERNAL")
				return
			}
			h.must(err)
			c.want.Submitter = "alice"
			if !proto.Equal(response, c.want) {
				t.Errorf("response %v, want %v", response, c.want)
			}
			if of != 7 || got.From != (txn.Address{1}) || got.MaxFee != limit ||
				got.Speed != txn.Fast || got.Payload.Value != *uint256.NewInt(1) {
				t.Errorf("draft %+v on chain %d", got, of)
			}
		})
	}
}

// TestSimulateTx_ManyCalls_FewAtOnce calls more often than may run at once.
func TestSimulateTx_ManyCalls_FewAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	entered, release := make(chan struct{}), make(chan struct{})
	n := h.serve(func(o *Options) {
		o.Simulate = func(ctx context.Context, _ txn.ChainID,
			_ txn.Draft) (txn.Quote, txn.Outcome, error) {
			entered <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return txn.Quote{}, txn.Outcome{Class: txn.Accepted}, nil
		}
	})
	const calls = maxSimulations + 3
	done := make(chan error, calls)
	for range calls {
		go func() {
			_, err := n.txs.SimulateTx(h.ctx,
				&pb.SimulateTxRequest{Submitter: "alice", Payload: payload()})
			done <- err
		}()
	}
	for range maxSimulations {
		<-entered
	}
	for range calls - maxSimulations { // each needs the place of another
		select {
		case <-entered:
			t.Fatal("more simulations than allowed run at once")
		case release <- struct{}{}:
		}
		h.must(<-done)
		<-entered
	}
	close(release)
	for range maxSimulations {
		h.must(<-done)
	}
}

// TestSimulateTx_GreedyCaller_OthersServed: a caller with more calls than may run at once leaves
// turns for another one.
func TestSimulateTx_GreedyCaller_OthersServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	entered, release := make(chan struct{}, 2*maxSimulations), make(chan struct{})
	n, greedy, shop := twoCallers(h, func(o *Options) {
		o.Simulate = func(ctx context.Context, _ txn.ChainID,
			draft txn.Draft) (txn.Quote, txn.Outcome, error) {
			if draft.Payload.Value.Uint64() == 1 { // the greedy one's
				entered <- struct{}{}
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return txn.Quote{}, txn.Outcome{Class: txn.Accepted}, nil
		}
	})
	simulate := func(ctx context.Context, value string) error {
		ask := payload()
		ask.Value = value
		_, err := n.txs.SimulateTx(ctx, &pb.SimulateTxRequest{Submitter: "alice", Payload: ask})
		return err
	}
	const calls = maxSimulations + 3
	done := make(chan error, calls)
	for range calls {
		go func() { done <- simulate(greedy, "1") }()
	}
	for range maxCallerSimulations {
		<-entered
	}
	h.must(simulate(shop, "2"))
	if len(entered) > 0 {
		t.Errorf("%d more simulations of one caller than allowed", len(entered))
	}
	close(release)
	for range calls {
		h.must(<-done)
	}
}
