package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/counter"
)

// create queues a transaction. After an error that leaves it open whether it was accepted, the same
// call again is safe: the request id names the intent.
func (d *demo) create(ctx context.Context, submitter, request string,
	p *fencepostv1.Payload) (*fencepostv1.Tx, error) {
	for {
		answer, err := d.txs.CreateTx(
			ctx,
			&fencepostv1.CreateTxRequest{
				Submitter: submitter,
				RequestId: d.id + "-" + request,
				Payload:   p,
			},
		)
		if err == nil {
			return answer.GetTx(), nil
		}
		if status.Code(err) != codes.Unavailable {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}

func (d *demo) deploy(ctx context.Context, submitter string) (common.Address, error) {
	fmt.Printf("Deploying a contract from %s.\n", submitter)
	tx, err := d.create(ctx, submitter, "deploy", &fencepostv1.Payload{Data: counter.InitCode()})
	if err != nil {
		return common.Address{}, err
	}
	last, err := d.watch(ctx, tx.GetTxId())
	if err != nil {
		return common.Address{}, err
	}
	if last.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
		return common.Address{}, fmt.Errorf("the contract was not deployed: %s: %s",
			last.GetReason(), last.GetMessage())
	}
	receipt, err := d.chain.TransactionReceipt(ctx, common.HexToHash(last.GetReceipt().GetTxHash()))
	if err != nil {
		return common.Address{}, fmt.Errorf("ask the chain for the contract: %w", err)
	}
	return receipt.ContractAddress, nil
}

// watch returns the final event of a transaction.
func (d *demo) watch(ctx context.Context, id string) (*fencepostv1.TxEvent, error) {
	stream, err := d.txs.WatchTx(
		ctx,
		&fencepostv1.WatchTxRequest{
			Target:     &fencepostv1.WatchTxRequest_TxId{TxId: id},
			UntilFinal: true,
		},
	)
	if err != nil {
		return nil, err
	}
	var last *fencepostv1.TxEvent
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		if m.GetEvent() != nil {
			last = m.GetEvent()
		}
	}
}

// send spreads the calls over the accounts, shows how they go, and returns when all are final, with
// how many of each account succeeded.
func (d *demo) send(ctx context.Context, contract common.Address, accounts []*fencepostv1.Submitter,
	calls int) (map[string]int, error) {
	feed, err := d.txs.WatchTx(
		ctx,
		&fencepostv1.WatchTxRequest{
			Target: &fencepostv1.WatchTxRequest_All{All: &fencepostv1.AllTxs{}},
		},
	)
	if err != nil {
		return nil, err
	}
	// the stream is set up: from here on no event escapes it
	if _, err := feed.Header(); err != nil {
		return nil, err
	}
	p := newProgress(calls)
	failed := make(chan error, 1)
	go func() {
		for i := range calls {
			tx, err := d.create(ctx, accounts[i%len(accounts)].GetName(), fmt.Sprintf("call-%d", i),
				&fencepostv1.Payload{To: contract.Hex()})
			if err != nil {
				failed <- err
				return
			}
			p.accept(tx.GetTxId())
		}
	}()
	events := make(chan *fencepostv1.TxEvent)
	go func() {
		for {
			m, err := feed.Recv()
			if err != nil {
				failed <- err
				return
			}
			if e := m.GetEvent(); e != nil {
				select {
				case events <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return p.until(ctx, events, failed)
}
