package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/chain/devchain"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// external makes a submitter external.
func (r *harness) external(i, limit int) {
	r.t.Helper()
	mode := txn.External
	if err := r.admin.SetPolicies(r.t.Context(), r.submitters[i],
		store.PolicyChange{Mode: &mode, MaxInFlight: &limit}); err != nil {
		r.t.Fatal(err)
	}
}

// externalChain is a ledger with one external submitter and an in-memory chain; no node runs yet.
func externalChain(t *testing.T, limit int) (*harness, *chaintest.Chain) {
	t.Helper()
	c := chaintest.New(chaintest.Options{})
	r := newLedger(t, 1, c.ID())
	r.external(0, limit)
	r.policy.External.ReconcileInterval = 20 * time.Millisecond
	c.Fund(devchain.Address(0), *uint256.MustFromDecimal("1000000000000000000000"))
	return r, c
}

// askNonce asks the owner and returns its result.
func (r *harness) askNonce(s *store.Store, ask store.NonceAsk) (store.NonceAsked,
	store.NonceOutcome) {
	r.t.Helper()
	if ask.Submitter = r.submitters[0]; ask.Kind == txn.RequestAllocate && ask.TTL == 0 {
		ask.TTL = time.Hour
	}
	asked, err := s.AskNonce(r.t.Context(), ask)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	outcome, err := s.AwaitNonce(ctx, asked)
	if err != nil {
		r.t.Fatal(err)
	}
	return asked, outcome
}

func (r *harness) allocateNonce(s *store.Store, key string) (txn.ReservationID, txn.Nonce) {
	r.t.Helper()
	asked, outcome := r.askNonce(s, store.NonceAsk{Kind: txn.RequestAllocate, RequestID: key})
	if outcome.Result != txn.Applied {
		r.t.Fatalf("allocation %s: %s", key, outcome.Result)
	}
	return asked.Reservation, outcome.Nonce
}

// underReservation asks for a change and wants this result code.
func (r *harness) underReservation(s *store.Store, id txn.ReservationID, ask store.NonceAsk,
	want string) {
	r.t.Helper()
	ask.Reservation = id
	if _, outcome := r.askNonce(s, ask); codeOf(outcome.Result) != want {
		r.t.Fatalf("%s: %q, want %s", ask.Kind, outcome.Result, want)
	}
}

func codeOf(result string) string {
	for i, c := range result {
		if c == ':' {
			return result[:i]
		}
	}
	return result
}

// nonceIs waits for the state of a nonce.
func (r *harness) nonceIs(nonce txn.Nonce, state txn.NonceState, reason string) store.NonceInfo {
	r.t.Helper()
	var info store.NonceInfo
	r.eventually(fmt.Sprintf("nonce %d is %s", nonce, state), func() (err error) {
		info, err = r.admin.Nonce(context.Background(), r.submitters[0], nonce)
		if err == nil && (info.State != state || reason != "" && info.Reason != reason) {
			err = fmt.Errorf("it is %s %s", info.State, info.Reason)
		}
		return err
	})
	return info
}

// signFor signs a transfer as the client would.
func signFor(t *testing.T, c *chaintest.Chain, nonce txn.Nonce, value uint64) txn.Signed {
	t.Helper()
	return signWith(t, c, nonce, value, 100e9)
}

func signWith(t *testing.T, c *chaintest.Chain, nonce txn.Nonce, value,
	limit uint64) txn.Signed {
	t.Helper()
	book, err := sign.NewBook(sign.Entry{Name: "keys", Holder: sign.NewMemory(devchain.Key(0))})
	if err != nil {
		t.Fatal(err)
	}
	p := transfer()
	p.Value = *uint256.NewInt(value)
	signed, err := book.Sign(t.Context(), "keys", txn.Unsigned{
		ChainID: c.ID(), From: devchain.Address(0), Nonce: nonce, Payload: p,
		Fees:     txn.Fees{Cap: *uint256.NewInt(limit), Tip: *uint256.NewInt(limit / 100)},
		GasLimit: 21000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestExternal_AllocateReleaseRecord(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 4)
	n := r.startOn(c, "a", nil)
	first, n0 := r.allocateNonce(n.store, "k0")
	again, same := r.allocateNonce(r.admin, "k0") // on another node
	if n0 != 0 || again != first || same != n0 {
		t.Fatalf("allocated %s %d, repeated %s %d", first, n0, again, same)
	}
	second, n1 := r.allocateNonce(r.admin, "k1")
	if n1 != 1 {
		t.Fatalf("second nonce is %d", n1)
	}
	r.underReservation(r.admin, second, store.NonceAsk{Kind: txn.RequestRelease, Reason: "x"},
		txn.Applied)
	r.nonceIs(1, txn.NonceRecyclable, txn.NonceNeverSigned)
	if _, reused := r.allocateNonce(n.store, "k2"); reused != 1 {
		t.Fatalf("the released nonce is not reused: %d", reused)
	}
	// the word of a former holder means nothing, and changes nothing
	r.underReservation(r.admin, second, store.NonceAsk{Kind: txn.RequestExtend, TTL: time.Hour},
		txn.ResultNonceState)
	r.nonceIs(1, txn.NonceReserved, "")
	signed := signFor(t, c, 0, 1)
	r.underReservation(n.store, first,
		store.NonceAsk{Kind: txn.RequestRecordHash, Hash: signed.Hash}, txn.Applied)
	r.nonceIs(0, txn.NoncePending, txn.NonceHashRecorded)
	r.underReservation(n.store, first, store.NonceAsk{Kind: txn.RequestRelease},
		txn.ResultNonceState)
	if answer := c.Send(t.Context(), signed); answer.Class != txn.Accepted {
		t.Fatalf("sent: %+v", answer)
	}
	c.Mine(1)
	r.nonceIs(0, txn.NoncePending, "")
	c.Mine(5)
	r.nonceIs(0, txn.NonceAccepted, txn.NonceByReceipt)
}

// TestExternal_Decision32_HandlerFails_Quarantined: a handler that failed may have signed, so its
// nonce is quarantined, and never reserved again on its word alone.
func TestExternal_Decision32_HandlerFails_Quarantined(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 4)
	n := r.startOn(c, "a", nil)
	id, nonce := r.allocateNonce(n.store, "k")
	r.underReservation(r.admin, id,
		store.NonceAsk{Kind: txn.RequestQuarantine, Reason: "exception"}, txn.Applied)
	r.nonceIs(nonce, txn.NoncePending, txn.NonceQuarantined)
	if _, other := r.allocateNonce(n.store, "k2"); other == nonce {
		t.Fatal("a quarantined nonce is reserved again")
	}
}

// TestExternal_Decision33_Expired_Quarantined: an expired reservation is quarantined too, and a
// report that comes after that, and after a takeover, is recorded.
func TestExternal_Decision33_Expired_Quarantined(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 4)
	n := r.startOn(c, "a", nil)
	asked, outcome := r.askNonce(n.store, store.NonceAsk{Kind: txn.RequestAllocate,
		RequestID: "k", TTL: time.Millisecond})
	if outcome.Result != txn.Applied {
		t.Fatal(outcome.Result)
	}
	r.nonceIs(outcome.Nonce, txn.NoncePending, txn.NonceExpired)
	n.stop()
	r.startOn(c, "b", nil)
	if _, other := r.allocateNonce(r.admin, "k2"); other == outcome.Nonce {
		t.Fatal("an expired nonce is reserved again")
	}
	signed := signFor(t, c, outcome.Nonce, 1)
	r.underReservation(r.admin, asked.Reservation,
		store.NonceAsk{Kind: txn.RequestRecordHash, Hash: signed.Hash}, txn.Applied)
	if answer := c.Send(t.Context(), signed); answer.Class != txn.Accepted {
		t.Fatalf("sent: %+v", answer)
	}
	c.Mine(5)
	r.nonceIs(outcome.Nonce, txn.NonceAccepted, txn.NonceByReceipt)
}

// TestExternal_Decision34_Reconcile_EvidenceOnly: a transaction above a hole is invisible to the
// account's pending nonce (H44). Neither that nor age frees its nonce, or the hole's. An operator
// decides on the hole, and the settled nonce accepts the rest.
func TestExternal_Decision34_Reconcile_EvidenceOnly(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	r.policy.External.HardMaxAge = time.Millisecond
	var metered reading
	n := r.startOn(c, "a", func(o *Options) { metered = measure(t, o) })
	hole, holeNonce := r.allocateNonce(n.store, "hole")
	above, aboveNonce := r.allocateNonce(n.store, "above")
	signed := signFor(t, c, aboveNonce, 1)
	if answer := c.Send(t.Context(), signed); answer.Class != txn.Accepted &&
		answer.Class != txn.NonceGap {
		t.Fatalf("sent: %+v", answer)
	}
	for _, id := range []txn.ReservationID{hole, above} { // nobody reports a hash
		r.underReservation(r.admin, id, store.NonceAsk{Kind: txn.RequestQuarantine}, txn.Applied)
	}
	for _, nonce := range []txn.Nonce{holeNonce, aboveNonce} {
		r.eventually("it needs an operator", func() error {
			c.Mine(1)
			info, err := r.admin.Nonce(context.Background(), r.submitters[0], nonce)
			if err == nil && (info.State != txn.NoncePending || !info.NeedsOperator) {
				err = fmt.Errorf("it is %s", info.State)
			}
			return err
		})
	}
	n.engine.countOnce(t.Context())
	if undecided := metered.sum("fencepost_nonces_undecided"); undecided != 2 {
		t.Errorf("%v nonces need an operator", undecided)
	}
	if _, next := r.allocateNonce(r.admin, "next"); next <= aboveNonce {
		t.Fatalf("nonce %d is reserved again", next)
	}
	r.underReservation(r.admin, hole, store.NonceAsk{Kind: txn.RequestResolve,
		Action: txn.NonceNeverSigned, Operator: "op", Reason: "the holder never started"},
		txn.Applied)
	r.nonceIs(holeNonce, txn.NonceRecyclable, txn.NonceByOperator)
	if _, reused := r.allocateNonce(r.admin, "reuse"); reused != holeNonce {
		t.Fatalf("reserved %d, want the hole %d", reused, holeNonce)
	}
	if answer := c.Send(t.Context(), signFor(t, c, holeNonce, 2)); answer.Class != txn.Accepted {
		t.Fatalf("sent: %+v", answer)
	}
	_ = c.Send(t.Context(), signed) // a pool without room for gaps did not keep it
	c.Mine(6)
	r.nonceIs(holeNonce, txn.NonceAccepted, txn.NonceBySettled)
	r.nonceIs(aboveNonce, txn.NonceAccepted, txn.NonceBySettled)
}

// TestExternal_Fill_HoleClosed: a cancel transaction of Fencepost uses the nonce of a holder that
// is gone.
func TestExternal_Fill_HoleClosed(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	n := r.startOn(c, "a", nil)
	id, nonce := r.allocateNonce(n.store, "k")
	r.underReservation(r.admin, id, store.NonceAsk{Kind: txn.RequestQuarantine}, txn.Applied)
	tx, err := r.admin.QueueReserved(t.Context(), store.ReservedTx{Reservation: id,
		Payload: txn.CancelPayload(devchain.Address(0))})
	if err != nil {
		t.Fatal(err)
	}
	r.underReservation(r.admin, id, store.NonceAsk{Kind: txn.RequestRelease},
		txn.ResultNonceState)
	if is := r.mineUntilFinal(c, tx); is.State != txn.Confirmed || *is.Nonce != nonce {
		t.Fatalf("it ended as %s %v", is.State, is.Nonce)
	}
	c.Mine(3)
	r.nonceIs(nonce, txn.NonceAccepted, "")
}

// TestExternal_ReleasedNonceUsed_Protects: a nonce that its holder released is used on chain.
func TestExternal_ReleasedNonceUsed_Protects(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	n := r.startOn(c, "a", nil)
	id, nonce := r.allocateNonce(n.store, "k")
	r.underReservation(r.admin, id, store.NonceAsk{Kind: txn.RequestRelease}, txn.Applied)
	if answer := c.Send(t.Context(), signFor(t, c, nonce, 1)); answer.Class != txn.Accepted {
		t.Fatalf("sent: %+v", answer)
	}
	c.Mine(6)
	r.nonceIs(nonce, txn.NonceAccepted, txn.NonceUsedReleased)
	info, err := r.admin.Submitter(t.Context(), r.submitters[0])
	if err != nil || info.Cursor.Protected == nil ||
		info.Cursor.Protected.Reason != txn.ReasonNonceElsewhere {
		t.Fatalf("not protected: %+v %v", info.Cursor, err)
	}
	_, outcome := r.askNonce(r.admin, store.NonceAsk{Kind: txn.RequestAllocate, RequestID: "x"})
	if outcome.Result != txn.ResultProtected {
		t.Fatalf("allocated under a protection: %s", outcome.Result)
	}
}

// TestExternal_FillHoles_HoleClosed: the owner fills a hole that its holder released, because a
// signed transaction above waits for it. Without fill_holes it stays.
func TestExternal_FillHoles_HoleClosed(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	r.policy.External.FillAfter = time.Millisecond
	n := r.startOn(c, "a", nil)
	hole, holeNonce := r.allocateNonce(n.store, "hole")
	above, nonce := r.allocateNonce(n.store, "above")
	tx := r.submitSigned(c, above, nonce, 5)
	r.underReservation(r.admin, hole, store.NonceAsk{Kind: txn.RequestRelease}, txn.Applied)
	if is := r.mineUntilFinal(c, tx); is.State != txn.Confirmed {
		t.Fatalf("it ended as %s", is.State)
	}
	c.Mine(3)
	info := r.nonceIs(holeNonce, txn.NonceAccepted, "")
	if info.Tx == nil {
		t.Fatalf("nonce %d has no transaction: %+v", holeNonce, info)
	}
	if filled, err := r.admin.Tx(t.Context(), *info.Tx); err != nil || filled.Signed ||
		filled.Payload.To == nil || *filled.Payload.To != devchain.Address(0) {
		t.Fatalf("filled by %+v, %v", filled, err)
	}
}

// TestExternal_FormerHolderReports_Recorded: its report is refused, and shown with the nonce.
func TestExternal_FormerHolderReports_Recorded(t *testing.T) {
	t.Parallel()
	r, c := externalChain(t, 8)
	n := r.startOn(c, "a", nil)
	former, nonce := r.allocateNonce(n.store, "former")
	r.underReservation(r.admin, former, store.NonceAsk{Kind: txn.RequestRelease}, txn.Applied)
	holder, same := r.allocateNonce(n.store, "holder")
	if same != nonce {
		t.Fatalf("reserved %d, want %d again", same, nonce)
	}
	theirs, other := signFor(t, c, nonce, 1), signFor(t, c, nonce, 2)
	record := func(id txn.ReservationID, hash txn.Hash, want string) {
		t.Helper()
		r.underReservation(r.admin, id,
			store.NonceAsk{Kind: txn.RequestRecordHash, Hash: hash}, want)
	}
	record(former, theirs.Hash, txn.ResultNonceState)
	info := r.nonceIs(nonce, txn.NoncePending, txn.NonceFormerSigned)
	if !info.NeedsOperator || len(info.Hashes) != 1 || info.Hashes[0] != theirs.Hash ||
		info.Reservation != holder {
		t.Fatalf("shown as %+v", info)
	}
	r.underReservation(r.admin, holder, store.NonceAsk{Kind: txn.RequestRelease},
		txn.ResultNonceState)
	record(holder, other.Hash, txn.Applied)
	third := signFor(t, c, nonce, 3) // of neither
	if answer := c.Send(t.Context(), third); answer.Class != txn.Accepted {
		t.Fatalf("sent: %+v", answer)
	}
	c.Mine(6)
	r.nonceIs(nonce, txn.NonceAccepted, txn.NonceByOther)
	late := signFor(t, c, nonce, 4)
	record(former, late.Hash, txn.ResultNonceState)
	if info = r.nonceIs(nonce, txn.NonceAccepted, ""); len(info.Hashes) != 3 ||
		info.Reservation != holder {
		t.Fatalf("shown as %+v", info)
	}
}

// wrongEndpoint is a chain of two endpoints. The one that serves unless it is avoided shows the
// account's nonce 0 as passed.
type wrongEndpoint struct {
	*chaintest.Chain
	wrong     atomic.Bool
	elsewhere atomic.Int32
}

func (w *wrongEndpoint) Account(ctx context.Context, address txn.Address,
	settled uint64) (txn.Account, error) {
	a, err := w.Chain.Account(ctx, address, settled)
	if a.Source = "wrong"; w.wrong.Load() {
		a.Latest, a.Pending = 1, 1
		a.Settled = 1
	}
	return a, err
}

func (w *wrongEndpoint) AccountElsewhere(ctx context.Context, address txn.Address, settled uint64,
	source string) (txn.Account, error) {
	if source != "wrong" {
		return w.Account(ctx, address, settled)
	}
	w.elsewhere.Add(1)
	a, err := w.Chain.Account(ctx, address, settled)
	a.Source = "right"
	return a, err
}

// TestExternal_OneEndpointWrong_NotAccepted: ACCEPTED is final, so it needs two endpoints, however
// often one of them is read.
func TestExternal_OneEndpointWrong_NotAccepted(t *testing.T) {
	t.Parallel()
	r, memory := externalChain(t, 8)
	c := &wrongEndpoint{Chain: memory}
	var log jsonLog
	n := r.startNode("a", func(o *Options) {
		o.Chains[0].Chain = c
		o.Logger = log.logger()
	})
	id, nonce := r.allocateNonce(n.store, "k")
	c.wrong.Store(true)
	r.eventually("it is read elsewhere three times", func() error {
		if times := c.elsewhere.Load(); times < 3 {
			return fmt.Errorf("%d times", times)
		}
		return nil
	})
	if info := r.nonceIs(nonce, txn.NonceReserved, ""); info.Reservation != id {
		t.Fatalf("it is %+v", info)
	}
	lines := log.find(t,
		"RPC endpoints disagree on the settled nonce; no nonce accepted until two agree")
	if len(lines) != 1 || lines[0]["endpoint"] != "wrong" ||
		lines[0]["other_endpoint"] != "right" || lines[0]["account"] != devchain.Address(0).Hex() {
		t.Fatalf("warned %v", lines)
	}
	c.wrong.Store(false)
	r.submitSigned(memory, id, nonce, 1)
	r.eventually("it is accepted by both", func() error {
		memory.Mine(1)
		info, err := r.admin.Nonce(context.Background(), r.submitters[0], nonce)
		if err == nil && info.State != txn.NonceAccepted {
			err = fmt.Errorf("it is %s", info.State)
		}
		return err
	})
}
