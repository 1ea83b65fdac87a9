package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

var transfer = &fencepostv1.Payload{To: "0x00000000000000000000000000000000000000aa", Value: "1"}

// TestIdempotency_ConcurrentCreates_OneTransaction asks for the same intent a hundred times at
// once.
func TestIdempotency_ConcurrentCreates_OneTransaction(t *testing.T) {
	t.Parallel()
	c := embedded(t, 50*time.Millisecond, 1)
	n := newNode(t, c, nodeOptions{confirmations: 1, poll: 25 * time.Millisecond})
	const callers = 100
	var mu sync.Mutex
	answers := map[string]int{}
	created, id := 0, ""
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			answer, err := n.CreateTx(
				context.Background(),
				&fencepostv1.CreateTxRequest{
					Submitter: "s00",
					RequestId: "same",
					Payload:   transfer,
				},
			)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			tx := answer.GetTx()
			answers[fmt.Sprint(
				tx.GetTxId(), tx.GetSubmitter(), tx.GetRequestId(), tx.GetPayload(),
				tx.GetCreateTime(),
			)]++
			id = tx.GetTxId()
			if answer.GetCreated() {
				created++
			}
		})
	}
	wg.Wait()
	if len(answers) != 1 || created != 1 {
		t.Fatalf("%d different answers, %d of them called new", len(answers), created)
	}
	n.await(t, id, time.Minute)
	other := &fencepostv1.Payload{To: transfer.GetTo(), Value: "2"}
	_, err := n.CreateTx(t.Context(),
		&fencepostv1.CreateTxRequest{Submitter: "s00", RequestId: "same", Payload: other})
	if code, reason := status.Code(err), reasonOf(err); code != codes.AlreadyExists ||
		reason != "IDEMPOTENCY_KEY_REUSED" {
		t.Errorf("the same key with another payload: %s, %s", code, reason)
	}
	var rows int
	if err := n.pool.QueryRow(
		t.Context(), "SELECT count(*) FROM managed_tx",
	).Scan(&rows); err != nil ||
		rows != 1 {
		t.Errorf("%d rows (%v)", rows, err)
	}
}

func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// TestBurst_ThousandOnOneAccount queues a thousand from as many callers; the chain takes them one
// by one, in the order of the queue.
func TestBurst_ThousandOnOneAccount(t *testing.T) {
	const callers = 1000
	c := embedded(t, 20*time.Millisecond, 2)
	n := newNode(t, c, nodeOptions{confirmations: 1, poll: 10 * time.Millisecond})
	contract := n.deploy(t, c)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(
			func() { n.create(t, "s00", fmt.Sprint(i), &fencepostv1.Payload{To: contract.Hex()}) })
	}
	wg.Wait()
	n.awaitAll(t, callers+1, 5*time.Minute)
	verifyChain(t, c, contract, 1, callers)
	n.verifyLedger(t, c, 1, callers)
}
