package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// gatedHolder signs with keys in memory, when the test lets it.
type gatedHolder struct {
	*sign.Memory
	gate func(context.Context, txn.Unsigned) error

	mu      sync.Mutex
	nonces  []txn.Nonce // requested
	pending int
	changed chan struct{} // closed at a change
}

func newGatedHolder(gate func(context.Context, txn.Unsigned) error) *gatedHolder {
	return &gatedHolder{
		Memory: sign.NewMemory(devchain.Key(0)), gate: gate, changed: make(chan struct{}),
	}
}

func (h *gatedHolder) count(n int, nonce txn.Nonce) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending += n
	if n > 0 {
		h.nonces = append(h.nonces, nonce)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// await waits until a condition holds, of the pending signatures and those requested so far.
func (h *gatedHolder) await(ctx context.Context,
	ok func(pending int, nonces []txn.Nonce) bool) error {
	for {
		h.mu.Lock()
		met, changed := ok(h.pending, h.nonces), h.changed
		h.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *gatedHolder) Sign(ctx context.Context, u txn.Unsigned) ([]byte, error) {
	h.count(1, u.Nonce)
	defer h.count(-1, u.Nonce)
	if err := h.gate(ctx, u); err != nil {
		return nil, err
	}
	return h.Memory.Sign(ctx, u)
}

// signer makes a node sign with a holder. Nothing depends on the timeout.
func (h *gatedHolder) signer(t *testing.T) func(*Options) {
	book, err := sign.NewBook(sign.Entry{Name: "keys", Holder: h, Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Signer = book }
}

// allocatedIn returns the number of nonces that each commit took.
func (r *harness) allocatedIn() (sizes []int) {
	r.t.Helper()
	rows, err := r.db.Pool.Query(r.t.Context(), `SELECT count(*)::INT FROM tx_event
		JOIN managed_tx USING (tx_id) WHERE kind = 'ALLOCATED' GROUP BY tx_event.xid
		ORDER BY min(nonce)`)
	if err != nil {
		r.t.Fatal(err)
	}
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			r.t.Fatal(err)
		}
		sizes = append(sizes, n)
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return sizes
}

// TestPipelined_RemoteSigner_Concurrent: a signer answers once as many signatures are pending as
// the account may have in flight.
func TestPipelined_RemoteSigner_Concurrent(t *testing.T) {
	t.Parallel()
	const limit = 16
	r, c := pipelinedChain(t, limit, chaintest.Options{})
	ids := r.createMany(limit)
	var h *gatedHolder
	h = newGatedHolder(func(ctx context.Context, _ txn.Unsigned) (err error) {
		return h.await(ctx, func(_ int, nonces []txn.Nonce) bool { return len(nonces) == limit })
	})
	r.startOn(c, "a", h.signer(t))
	r.awaitExecuted(c, ids)
	if sizes := r.allocatedIn(); !slices.Equal(sizes, []int{limit}) {
		t.Errorf("commits took %d nonces", sizes)
	}
}

// TestPipelined_SignatureFails_LowerTaken: the signature in the middle of a range fails. The nonces
// below it are taken, and those above it, which are signed, are not.
func TestPipelined_SignatureFails_LowerTaken(t *testing.T) {
	t.Parallel()
	const limit, failing = 16, 5
	r, c := pipelinedChain(t, limit, chaintest.Options{})
	ids := r.createMany(limit)
	var h *gatedHolder
	var once sync.Once
	failed := make(chan struct{})
	h = newGatedHolder(func(ctx context.Context, u txn.Unsigned) (err error) {
		switch {
		case u.Nonce < failing:
			<-failed // the lower ones are the last
		case u.Nonce == failing:
			err = h.await(ctx, func(pending int, nonces []txn.Nonce) bool {
				return len(nonces) > limit || len(nonces) == limit && pending == failing+1
			})
			once.Do(func() {
				err = errors.New("throttled")
				close(failed)
			})
		}
		return err
	})
	r.startOn(c, "a", h.signer(t))
	r.awaitExecuted(c, ids)
	if sizes := r.allocatedIn(); !slices.Equal(sizes, []int{5, 5, 6}) {
		t.Errorf("commits took %d nonces", sizes)
	}
}

// TestPipelined_SignerAway_OneRequest: a signer that failed gets one request at a time until it
// works again.
func TestPipelined_SignerAway_OneRequest(t *testing.T) {
	t.Parallel()
	const limit, retries = 16, 3
	r, c := pipelinedChain(t, limit, chaintest.Options{})
	ids := r.createMany(limit)
	var mu sync.Mutex
	var first, more, failures int // requests for nonce 0, and for others after its first failure
	h := newGatedHolder(func(_ context.Context, u txn.Unsigned) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case first > retries:
			return nil
		case u.Nonce == 0:
			first++
		case first > 1:
			more++
		}
		failures++
		return errors.New("away")
	})
	r.startOn(c, "a", h.signer(t))
	r.awaitExecuted(c, ids)
	if more > 0 || first != retries+1 || failures > limit+retries {
		t.Errorf("%d requests for the lowest nonce and %d for others while it failed; %d failures",
			first, more, failures)
	}
	if sizes := r.allocatedIn(); !slices.Equal(sizes, []int{1, 2, 4, 8, 1}) {
		t.Errorf("commits took %d nonces", sizes)
	}
}

// TestPipelined_SignerHangs_StopsAtOnce: an owner that ends while signatures are pending takes
// nothing, and waits for none.
func TestPipelined_SignerHangs_StopsAtOnce(t *testing.T) {
	t.Parallel()
	const limit = 16
	r, c := pipelinedChain(t, limit, chaintest.Options{})
	ids := r.createMany(limit)
	h := newGatedHolder(func(ctx context.Context, _ txn.Unsigned) error {
		<-ctx.Done()
		return ctx.Err()
	})
	n := r.startOn(c, "a", h.signer(t))
	if err := h.await(t.Context(), func(pending int, _ []txn.Nonce) bool {
		return pending == limit
	}); err != nil {
		t.Fatal(err)
	}
	n.stop()
	if h.pending > 0 {
		t.Errorf("%d signatures are still pending", h.pending)
	}
	if taken := r.number("SELECT count(*) FROM tx_attempt"); taken > 0 {
		t.Errorf("%d attempts were recorded", taken)
	}
	r.startOn(c, "b", nil)
	r.awaitExecuted(c, ids)
}
