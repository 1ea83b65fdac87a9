package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// nonces is the memory of an owner about the nonces of clients, besides the ledger's.
type nonces struct {
	requests []txn.NonceRequest // waiting ones, in order
	more     bool               // there may be requests after these
	readAt   time.Time          // of the last read of the account for them, successful or not
	receipts map[txn.Hash]*txn.Receipt
	settled  txn.Nonce                  // of the account, by the same read; 0: it failed
	before   txn.Nonce                  // likewise, by the last successful read before that one
	last     txn.Nonce                  // likewise, by the last successful read
	source   string                     // endpoint of the last successful read
	warned   time.Time                  // when a disagreement of endpoints was last logged
	signed   []txn.SignedBytes          // by clients, not recorded as attempts yet
	unread   bool                       // there may be bytes of clients after these
	filled   map[txn.ReservationID]bool // their cancel transaction was queued
	isolation
}

// isolation finds the request whose change the database rejects, and survives a read of the ledger.
// Until it is over, only the requests of that change are answered, each by a change of its own, so
// it ends however many others arrive.
type isolation struct {
	suspects map[int64]bool // numbers of those that are not answered; empty: no isolation
	rejected map[int64]bool // numbers of requests whose own change was rejected
}

// isolate reports whether another change may succeed after the database has rejected this one.
// Otherwise it is a defect that waits for an operator, as for every rejected change.
func (n *nonces) isolate(c *txn.NonceChange) bool {
	switch {
	case c == nil || len(c.Results) == 0:
		return false
	case len(n.suspects) == 0:
		n.suspects, n.rejected = map[int64]bool{}, map[int64]bool{}
		for _, r := range c.Results {
			n.suspects[r.No] = true
		}
		return true
	case n.rejected[c.Results[0].No]:
		return false
	}
	n.rejected[c.Results[0].No] = true
	return true
}

// answer ends the isolation once the rejected request, or every request of the rejected change, is
// answered.
func (n *nonces) answer(done map[int64]bool) {
	n.requests = slices.DeleteFunc(slices.Clone(n.requests),
		func(r txn.NonceRequest) bool { return done[r.No] })
	for no := range done {
		delete(n.suspects, no)
		if n.rejected[no] {
			n.isolation = isolation{}
		}
	}
	if len(n.suspects) == 0 {
		n.isolation = isolation{}
	}
}

// receive takes the requests that wait. During an isolation all others are left for later.
func (n *nonces) receive(waiting []txn.NonceRequest) {
	n.requests, n.more = waiting, len(waiting) >= maxRequests
	if len(n.suspects) == 0 {
		return
	}
	suspected := slices.DeleteFunc(slices.Clone(waiting),
		func(r txn.NonceRequest) bool { return !n.suspects[r.No] })
	if len(suspected) == 0 { // another owner has answered them, or a commit of unknown outcome
		n.isolation = isolation{}
		return
	}
	n.requests, n.more = suspected, n.more || len(suspected) < len(waiting)
}

// maxRequests is the number of requests that one read returns at most.
const maxRequests = 512

func (n *nonces) view(of []txn.ExternalNonce) txn.ExternalView {
	for i := range n.requests {
		n.requests[i].Rejected = n.rejected[n.requests[i].No]
	}
	return txn.ExternalView{
		Nonces: of, Requests: n.requests, ReadAt: n.readAt, Receipts: n.receipts,
		Settled: n.settled, Before: n.before, Source: n.source, Signed: n.signed,
		Filled: n.filled, OneByOne: len(n.suspects) > 0,
	}
}

// taken removes the bytes of a client that became an attempt.
func (n *nonces) taken(hash txn.Hash) {
	if len(n.signed) > 0 {
		n.signed = slices.DeleteFunc(slices.Clone(n.signed),
			func(s txn.SignedBytes) bool { return s.Hash == hash })
	}
}

// answered reports whether all requests or bytes of one read are answered or recorded, and there
// may be more.
func (n *nonces) answered() bool {
	return n.more && len(n.requests) == 0 || n.unread && len(n.signed) == 0
}

// nonceMail is everything that the owner of a submitter in mode EXTERNAL reads: an inbox, the
// requests of clients, and the bytes that they signed.
type nonceMail struct {
	store.Inbox
	requests []txn.NonceRequest
	signed   store.SignedInbox
}

// readNonceMail reads the mail of owners. The queue is read last: it has the transactions of all
// signed bytes.
func (r *router) readNonceMail(ctx context.Context,
	ids []txn.SubmitterID) (map[txn.SubmitterID]nonceMail, error) {
	limited, cancel := context.WithTimeout(ctx, r.e.LeaseDuration)
	defer cancel()
	requests, err := r.e.Store.NonceRequests(limited, ids)
	if err != nil {
		return nil, err
	}
	heads := r.headsOf(ids)
	signed, err := r.e.Store.PendingSigned(limited, ids, heads...)
	if err != nil {
		return nil, err
	}
	inboxes, err := r.e.Store.Inboxes(limited, ids, heads...)
	if err != nil {
		return nil, err
	}
	mail := make(map[txn.SubmitterID]nonceMail, len(ids))
	for _, id := range ids {
		mail[id] = nonceMail{inboxes[id], requests[id], signed[id]}
	}
	return mail, nil
}

// readInbox reads the inbox of a submitter, in mode EXTERNAL with the requests of clients.
func (a *actor) readInbox(ctx context.Context) (store.Inbox, error) {
	if a.ledger.Submitter.Mode != txn.External {
		return a.e.router.inboxes.get(ctx, a.id)
	}
	mail, err := a.e.router.nonceMail.get(ctx, a.id)
	if err != nil {
		return store.Inbox{}, err
	}
	a.nonces.receive(mail.requests)
	a.nonces.signed, a.nonces.unread = mail.signed.List, mail.signed.More
	return mail.Inbox, nil
}

// readReported reads the receipts of hashes that clients reported, together with the account.
func (a *actor) readReported(ctx context.Context, v *txn.View,
	s txn.ReadAccount) map[txn.Hash]*txn.Receipt {
	if !s.External {
		return nil
	}
	receipts := map[txn.Hash]*txn.Receipt{}
	hashes := v.ReportedHashes()
	if len(hashes) == 0 {
		return receipts
	}
	for _, r := range a.e.chains[v.Submitter.Chain].Receipts(ctx, hashes) {
		if r.Err == nil {
			receipts[r.Hash] = r.Receipt
		}
	}
	return receipts
}

func (a *actor) noteReported(s txn.ReadAccount, receipts map[txn.Hash]*txn.Receipt,
	account *txn.Account) {
	if !s.External {
		return
	}
	a.nonces.readAt, a.nonces.receipts = a.e.Clock.Now(), receipts
	a.nonces.before, a.nonces.settled = a.nonces.last, 0
	if account != nil {
		a.nonces.settled, a.nonces.last = account.Settled, account.Settled
		a.nonces.source = account.Source
	}
}

// warnDisagreement logs that a read shows a lower settled nonce than the one it should confirm: one
// of the two endpoints is wrong.
func (a *actor) warnDisagreement(v *txn.View, s txn.ReadAccount, account txn.Account) {
	now := a.e.Clock.Now()
	if s.Avoid == "" || account.Settled >= a.nonces.last ||
		now.Sub(a.nonces.warned) < warnInterval {
		return
	}
	a.nonces.warned = now
	a.log.Warn("RPC endpoints disagree on the settled nonce; no nonce accepted until two agree",
		"account", v.Submitter.Address.Hex(), "endpoint", s.Avoid, "settled",
		uint64(a.nonces.last), "other_endpoint", account.Source, "other_settled",
		uint64(account.Settled))
}

// fillHole queues the cancel transaction that fills a hole.
func (a *actor) fillHole(ctx context.Context, v *txn.View, s txn.FillHole) (performed, error) {
	id, err := a.e.Store.QueueReserved(ctx, store.ReservedTx{
		Reservation: s.Reservation, Payload: txn.CancelPayload(v.Submitter.Address),
	})
	if ctx.Err() != nil {
		return performed{}, ctx.Err()
	}
	if err != nil && !errors.Is(err, store.ErrNotHeld) {
		a.log.Warn("hole not filled; retrying", "reservation_id", s.Reservation.String(), "error",
			err)
		a.pause(ctx, txn.Backoff(1))
		return performed{}, nil
	}
	return performed{remember: func() {
		a.nonces.filled = maps.Clone(a.nonces.filled)
		if a.nonces.filled == nil {
			a.nonces.filled = map[txn.ReservationID]bool{}
		}
		a.nonces.filled[s.Reservation] = true
		a.mail.Store(true)
		a.log.Warn("hole filled with a cancel transaction", "reservation_id",
			s.Reservation.String(), "tx_id", id.String())
	}}, nil
}

// applyNonces updates the memory about the nonces of clients.
func (a *actor) applyNonces(c *txn.Change) {
	n := c.Nonces
	if n == nil {
		return
	}
	if n.Reserves && n.To > n.From {
		moved := *a.ledger.Cursor
		moved.Next, moved.LastBlock = n.To, 0
		a.ledger.Cursor = &moved
	}
	list := slices.Clone(a.ledger.Nonces)
	for i := range n.Writes {
		w := &n.Writes[i]
		at, found := slices.BinarySearchFunc(list, w.Next.Nonce,
			func(have txn.ExternalNonce, nonce txn.Nonce) int {
				return int(int64(have.Nonce) - int64(nonce))
			})
		switch {
		case w.Next.State == txn.NonceAccepted && found:
			list = slices.Delete(list, at, at+1)
		case w.Next.State == txn.NonceAccepted:
		case found:
			list[at] = w.Next
		default:
			list = slices.Insert(list, at, w.Next)
		}
		if w.Next.State == txn.NonceAccepted {
			a.noteAccepted(&w.Next)
		}
		a.noteNonce(w)
	}
	a.ledger.Nonces = list
	done := make(map[int64]bool, len(n.Results))
	for _, r := range n.Results {
		done[r.No] = true
	}
	a.nonces.answer(done)
}

// noteAccepted gives requests that still wait the nonce of their reservation, which leaves memory:
// without it they would be answered as those of a released reservation.
func (a *actor) noteAccepted(n *txn.ExternalNonce) {
	a.nonces.requests = slices.Clone(a.nonces.requests)
	for i := range a.nonces.requests {
		r := &a.nonces.requests[i]
		if r.Reservation == n.Reservation || r.Given != nil && *r.Given == n.Nonce {
			accepted := *n
			r.Accepted = &accepted
		}
	}
}

// warnedReasons are those of changes that an operator should know about.
var warnedReasons = []string{
	txn.NonceUsedReleased, txn.NonceExpired, txn.NonceByOperator, txn.NonceByOther, txn.NonceHole,
}

// noteNonce logs and counts a change of one nonce.
func (a *actor) noteNonce(w *txn.NonceWrite) {
	n := &w.Next
	if n.State == w.From && !n.NeedsOperator {
		return
	}
	state := string(n.State)
	if n.NeedsOperator {
		state = nonceNeedsOperator
	}
	a.e.metrics.nonces.Add(context.Background(), 1, labelled("state", state))
	log := a.log.Debug
	switch {
	case n.NeedsOperator, slices.Contains(warnedReasons, n.Reason):
		log = a.log.Warn
	}
	log("nonce moved", "nonce", uint64(n.Nonce), "state", string(n.State), "reason", n.Reason,
		"reservation_id", n.Reservation.String(), "holder", n.Holder, "needs_operator",
		n.NeedsOperator, "message", n.Message)
}
