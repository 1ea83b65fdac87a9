package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// skewedClock is the clock of a node that is wrong.
type skewedClock struct {
	clock.Real
	by time.Duration
}

func (c skewedClock) Now() time.Time { return c.Real.Now().Add(c.by) }

// Lists are in the order of the database's clock, whatever the clocks of the nodes that accepted
// the transactions; also page by page.
func TestTxs_NodesWithWrongClocks_DatabaseOrder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	var stores []*Store
	for i, skew := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour, time.Minute} {
		stores = append(stores, k.open(fmt.Sprint("n", i),
			func(c *Config) { c.Clock = skewedClock{by: skew} }))
	}
	s := stores[0]
	id := k.submitter(s, "one")
	labels := map[string]string{"batch": "a"}
	const created = 12
	for i := range created {
		at := stores[i%len(stores)]
		tx, isNew, err := at.CreateTx(k.ctx, Intent{
			Submitter: id, RequestID: fmt.Sprint(i), Payload: txn.Payload{To: &txn.Address{1}},
			Labels: labels,
		})
		if err != nil || !isNew || tx.ID.Submitter() != id {
			t.Fatalf("%+v, %v, %v", tx, isNew, err)
		}
		again, isNew, err := at.CreateTx(k.ctx, Intent{
			Submitter: id, RequestID: fmt.Sprint(i), Payload: txn.Payload{To: &txn.Address{1}},
			Labels: labels,
		})
		if err != nil || isNew || again.ID != tx.ID {
			t.Fatalf("repeated: %s, %v, %v, want %s", again.ID, isNew, err, tx.ID)
		}
	}
	for name, filter := range map[string]TxFilter{
		"all":      {},
		"by label": {Labels: labels},
		"by state": {States: txn.States},
		"open":     {States: []txn.State{txn.Queued}},
		"by time":  {CreatedFrom: time.Unix(0, 0), CreatedBefore: endOfTime},
	} {
		var list []TxInfo
		for filter.Limit = 5; ; {
			page, err := s.Txs(k.ctx, filter)
			k.must(err)
			list = append(list, page...)
			if filter.Ends(page) {
				break
			}
			filter.Before = page[len(page)-1].ID
		}
		if len(list) != created {
			t.Errorf("%s: %d transactions, want %d", name, len(list), created)
		}
		for i := range list[:len(list)-1] {
			newer, older := list[i], list[i+1]
			sameTime := [6]byte(newer.ID[:6]) == [6]byte(older.ID[:6])
			if newer.QueueSeq < older.QueueSeq && !sameTime {
				t.Errorf("%s: %s is listed before %s, which is newer", name, newer.RequestID,
					older.RequestID)
			}
		}
	}
}
