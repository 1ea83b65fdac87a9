package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// driven is a node on a chain that the test drives.
type driven struct {
	*node
	b   *beacon
	tap *tap
}

// newDriven starts a node. settings are added to the chain configuration that all tests share; of
// that, it may repeat only resubmit.
func newDriven(t *testing.T, b *beacon, confirmations int, settings string) *driven {
	t.Helper()
	url := freshDatabase(t)
	d := &driven{b: b, tap: newTap(t, "a", b.url, openPool(t, url))}
	d.node = prepareNode(t, b.testChain,
		nodeOptions{confirmations: confirmations, poll: 50 * time.Millisecond, rpc: d.tap.url}, url)
	d.migrate(t)
	if !strings.Contains(settings, "resubmit:") {
		settings = "resubmit: {interval: 300ms, max_attempts: 1000000}, " + settings
	}
	d.edit(t, "resubmit: {interval: 5s, max_attempts: 20}", strings.TrimSuffix(settings, ", "))
	d.start(t)
	return d
}

// end holds all that was sent to law L3, and stops the node.
func (d *driven) end(t *testing.T) {
	t.Helper()
	d.tap.verify(t, nil)
	d.proc.stop(t)
}

// story holds the events that a watcher receives for one transaction.
type story struct {
	id     string
	events []*fencepostv1.TxEvent
	done   chan error
}

// begin asks for a transaction, and watches it from then on.
func (d *driven) begin(t *testing.T, submitter int, request string, p *fencepostv1.Payload) *story {
	t.Helper()
	return d.watch(t, d.node.create(t, d.names[submitter], request, p).GetTxId())
}

func (d *driven) watch(t *testing.T, id string) *story {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &story{id: id, done: make(chan error, 1)}
	stream, err := d.WatchTx(
		ctx,
		&fencepostv1.WatchTxRequest{
			Target:     &fencepostv1.WatchTxRequest_TxId{TxId: id},
			UntilFinal: true,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for {
			m, err := stream.Recv()
			if err != nil {
				s.done <- err
				return
			}
			if e := m.GetEvent(); e != nil {
				s.events = append(s.events, e)
			}
		}
	}()
	return s
}

// finished waits for the final event and verifies that every event arrived once, in order, and that
// the last one matches the ledger.
func (d *driven) finished(t *testing.T, s *story) (*fencepostv1.Tx, []*fencepostv1.TxEvent) {
	t.Helper()
	tx := d.await(t, s.id, time.Minute)
	select {
	case err := <-s.done:
		if err.Error() != "EOF" {
			t.Fatalf("the watch of %s ended with %v", s.id, err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("the watch of %s did not end", s.id)
	}
	for i, e := range s.events {
		if e.GetSeq() != uint64(i+1) {
			t.Fatalf("event %d of %s has the number %d", i+1, s.id, e.GetSeq())
		}
	}
	last := s.events[len(s.events)-1]
	if len(s.events) != int(tx.GetVersion()) || last.GetState() != tx.GetState() ||
		last.GetTxHash() != tx.GetTxHash() ||
		last.GetReason() != tx.GetReason() ||
		last.GetExecuted() != tx.GetExecuted() {
		t.Errorf("the last of %d events is %v; the transaction is %v", len(s.events), last, tx)
	}
	return tx, s.events
}

// kinds are the events of a story in order, in short.
func kinds(events []*fencepostv1.TxEvent) string {
	var all []string
	for _, e := range events {
		all = append(all, strings.TrimPrefix(e.GetKind().String(), "TX_EVENT_KIND_"))
	}
	return strings.Join(all, " ")
}

// included returns the hashes reported as included, in order.
func included(events []*fencepostv1.TxEvent) (hashes []string) {
	for _, e := range events {
		if e.GetKind() == fencepostv1.TxEventKind_TX_EVENT_KIND_INCLUDED {
			hashes = append(hashes, e.GetTxHash())
		}
	}
	return hashes
}

// until waits until a transaction meets a condition.
func (d *driven) until(t *testing.T, id, what string,
	holds func(*fencepostv1.Tx) bool) *fencepostv1.Tx {
	t.Helper()
	var tx *fencepostv1.Tx
	eventually(t, time.Minute, what, func() error {
		answer, err := d.GetTx(
			context.Background(),
			&fencepostv1.GetTxRequest{
				Key:  &fencepostv1.GetTxRequest_TxId{TxId: id},
				View: fencepostv1.TxView_TX_VIEW_OPERATOR,
			},
		)
		if err != nil {
			return err
		}
		if tx = answer.GetTx(); !holds(tx) {
			return fmt.Errorf("it is %v", tx)
		}
		return nil
	})
	return tx
}

// pending waits until the newest of so many forms was taken by geth. A bump follows a block, so it
// makes one without transactions before each form but the first.
func (d *driven) pending(t *testing.T, id string, forms int) *fencepostv1.Tx {
	t.Helper()
	made := 1
	return d.until(
		t,
		id,
		fmt.Sprintf("form %d is in the pool", forms),
		func(tx *fencepostv1.Tx) bool {
			taken := int(tx.GetOperator().GetAcceptedAttempt())
			if taken < forms && taken >= made {
				made = taken + 1
				d.b.extend(d.b.build())
			}
			return len(tx.GetOperator().GetAttempts()) >= forms && taken >= forms
		},
	)
}

// inBlock waits until the ledger has it in this block.
func (d *driven) inBlock(t *testing.T, id string, hash common.Hash) {
	t.Helper()
	d.until(t, id, "it is in block "+hash.Hex(),
		func(tx *fencepostv1.Tx) bool { return tx.GetReceipt().GetBlockHash() == hash.Hex() })
}

// raw are the signed bytes of one form, as they are recorded.
func (d *driven) raw(t *testing.T, id string, form int) (bytes []byte) {
	t.Helper()
	if err := d.pool.QueryRow(
		context.Background(), "SELECT raw_tx FROM tx_attempt WHERE tx_id = $1 AND attempt_no = $2",
		id, form,
	).Scan(&bytes); err != nil {
		t.Fatalf("form %d of %s: %v", form, id, err)
	}
	return bytes
}

// finishAll mines the pool until all of these transactions are final.
func (d *driven) finishAll(t *testing.T, ids ...string) {
	t.Helper()
	eventually(t, time.Minute, "everything is final", func() error {
		d.b.extend(d.b.fromPool())
		var open int
		err := d.pool.QueryRow(context.Background(),
			"SELECT count(*) FROM managed_tx WHERE tx_id::TEXT = ANY($1) AND terminal_at IS NULL",
			ids).Scan(
			&open,
		)
		if err == nil && open > 0 {
			err = fmt.Errorf("%d are not", open)
		}
		return err
	})
}

// verifyAccount requires the submitter's transactions on chain to be exactly these, in this order,
// with nonces from 0.
func (d *driven) verifyAccount(t *testing.T, submitter int, want ...string) {
	t.Helper()
	from := crypto.PubkeyToAddress(d.b.keys[submitter].PublicKey)
	var got []string
	for _, h := range minedFrom(t, d.b.testChain, []common.Address{from}) {
		got = append(got, h.Hex())
	}
	if !slices.Equal(got, want) {
		t.Errorf("on chain from %s: %v, want %v", d.names[submitter], got, want)
	}
	if next, err := d.b.NonceAt(context.Background(), from, nil); err != nil ||
		next != uint64(len(want)) {
		t.Errorf("the next nonce of %s is %d (%v), want %d", d.names[submitter], next, err,
			len(want))
	}
}
