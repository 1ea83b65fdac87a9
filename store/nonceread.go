package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// NonceInfo is a nonce as readers get it.
type NonceInfo struct {
	txn.ExternalNonce
	Account                        NonceAccount
	ReservedAt, ExpiresAt, StateAt time.Time // by the database's clock; ExpiresAt may be zero
	Tx                             *txn.TxID // that Fencepost tracks for it; nil: none
}

// NonceAccount is the account of a nonce. It never changes.
type NonceAccount struct {
	Name    string
	Chain   txn.ChainID
	Address txn.Address
}

// NonceFilter selects nonces of a submitter.
type NonceFilter struct {
	Submitter     txn.SubmitterID
	Below         *txn.Nonce // only lower ones; nil: all
	States        []txn.NonceState
	NeedsOperator bool
	Limit         int
}

// LowestReserved returns the lowest nonce of clients that the chain has not used for good.
func (s *Store) LowestReserved(ctx context.Context,
	id txn.SubmitterID) (n txn.Nonce, found bool, err error) {
	lowest, err := s.read().LowestReserved(ctx, int32(id))
	if err != nil {
		return 0, false, s.failed(ctx, "read the lowest nonce of clients", err)
	}
	return txn.Nonce(max(0, lowest)), lowest >= 0, nil
}

// ListNonces returns nonces of a submitter, highest first.
func (s *Store) ListNonces(ctx context.Context, f NonceFilter) ([]NonceInfo, error) {
	below := int64(math.MaxInt64)
	if f.Below != nil {
		below = int64(min(uint64(*f.Below), math.MaxInt64))
	}
	states := make([]string, len(f.States))
	for i, state := range f.States {
		states[i] = string(state)
	}
	rows, err := s.read().Nonces(ctx, db.NoncesParams{
		SubmitterID: int32(f.Submitter), Below: below, AnyState: len(states) == 0, States: states,
		NeedsOperator: f.NeedsOperator, MaxRows: rowLimit(f.Limit),
	})
	if err != nil {
		return nil, s.failed(ctx, fmt.Sprintf("list the nonces of submitter %d", f.Submitter), err)
	}
	infos := make([]NonceInfo, len(rows))
	for i, r := range rows {
		infos[i] = toNonceInfo(db.ReservedNoncesRow(r))
	}
	return infos, nil
}

func toNonceInfo(r db.ReservedNoncesRow) NonceInfo {
	x := r.ExternalNonce
	info := NonceInfo{
		ExternalNonce: txn.ExternalNonce{
			Nonce: txn.Nonce(x.Nonce), State: txn.NonceState(x.State), Version: x.Version,
			Reservation: txn.ReservationID(x.ReservationID), Holder: x.Holder, Caller: x.Caller,
			Reason: x.Reason, Message: x.Message, NeedsOperator: x.NeedsOperator,
		},
		Account:    toNonceAccount(r.Name, r.ChainID, r.Address),
		ReservedAt: x.ReservedAt, StateAt: x.StateAt,
	}
	if x.ExpiresAt != nil {
		info.ExpiresAt = *x.ExpiresAt
	}
	for _, h := range r.Hashes {
		info.Hashes = append(info.Hashes, toHash(h))
	}
	if r.TxID != (uuid.UUID{}) {
		info.Tx = new(txn.TxID(r.TxID))
	}
	return info
}

func toNonceAccount(name string, chain int64, address []byte) NonceAccount {
	return NonceAccount{
		Name: name, Chain: txn.ChainID(chain), Address: txn.Address(address),
	}
}

// Nonce returns one nonce of a submitter.
func (s *Store) Nonce(ctx context.Context, submitter txn.SubmitterID,
	nonce txn.Nonce) (NonceInfo, error) {
	below := nonce + 1
	infos, err := s.ListNonces(ctx, NonceFilter{Submitter: submitter, Below: &below, Limit: 1})
	if err != nil {
		return NonceInfo{}, err
	}
	if len(infos) == 0 || infos[0].Nonce != nonce {
		return NonceInfo{}, fmt.Errorf("store: read nonce %d of submitter %d: %w", nonce, submitter,
			ErrNonceNotFound)
	}
	return infos[0], nil
}

// NonceOf returns the nonce that a reservation holds, or held last. held is false if another
// reservation holds the nonce by now: then it is as this one left it, RECYCLABLE. ErrNonceNotFound:
// it never held one.
func (s *Store) NonceOf(ctx context.Context, id txn.ReservationID) (info NonceInfo, held bool,
	err error) {
	verb := fmt.Sprintf("read reservation %s", id)
	for range 2 { // it may be given its nonce between the two reads
		info, held, err = s.heldNonce(ctx, id)
		if held || err != nil {
			return info, held, s.failed(ctx, verb, err)
		}
		r, err := s.read().EndedReservation(ctx, db.EndedReservationParams{
			SubmitterID: int32(id.Submitter()), ReservationID: uuid.UUID(id)})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return info, false, fmt.Errorf("store: %s: %w", verb, ErrNonceNotFound)
		case err != nil:
			return info, false, s.failed(ctx, verb, err)
		}
		if info = endedNonce(id, r); r.EndKind != "" {
			break
		}
	}
	return info, false, nil
}

// endedNonce returns a nonce as the reservation left it.
func endedNonce(id txn.ReservationID, r db.EndedReservationRow) NonceInfo {
	info := NonceInfo{
		ExternalNonce: txn.ExternalNonce{
			Nonce: txn.Nonce(r.Nonce), State: txn.NonceRecyclable, Reservation: id,
			Holder: r.Holder, Caller: r.Caller, Reason: txn.NonceNeverSigned, Message: r.EndReason,
		},
		Account:    toNonceAccount(r.Name, r.ChainID, r.Address),
		ReservedAt: r.ReservedAt, StateAt: r.EndedAt,
	}
	if r.EndKind == string(txn.RequestResolve) {
		info.Reason, info.Message = txn.NonceByOperator, r.EndOperator+": "+r.EndReason
	}
	for _, h := range r.Hashes {
		info.Hashes = append(info.Hashes, toHash(h))
	}
	return info
}

// heldJob reads the nonce of a reservation.
type heldJob struct {
	id    txn.ReservationID
	info  NonceInfo
	held  bool
	err   error
	ended chan struct{}
}

func (j *heldJob) size() int  { return len(j.id) }
func (j *heldJob) key() int64 { return 0 }

func (j *heldJob) end(err error) {
	j.err = err
	close(j.ended)
}

// heldNonce returns the nonce that a reservation holds, or held last. It shares a statement with
// other calls on this node.
func (s *Store) heldNonce(ctx context.Context,
	id txn.ReservationID) (info NonceInfo, held bool, err error) {
	job := &heldJob{id: id, ended: make(chan struct{})}
	if err := s.helds.put(job); err != nil {
		return info, false, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	select {
	case <-job.ended:
		return job.info, job.held, job.err
	case <-ctx.Done():
		return info, false, context.Cause(ctx)
	}
}

// sendHeld reads the nonces of a group with one statement.
func (s *Store) sendHeld(_ bool, group []*heldJob) *refusal {
	ctx, cancel := context.WithTimeout(context.Background(), 2*readLimit)
	defer cancel()
	var p db.ReservedNoncesParams
	for _, job := range group {
		p.SubmitterIds = append(p.SubmitterIds, int32(job.id.Submitter()))
		p.Reservations = append(p.Reservations, uuid.UUID(job.id))
	}
	rows, err := s.read().ReservedNonces(ctx, p)
	of := make(map[txn.ReservationID]NonceInfo, len(rows))
	for _, r := range rows {
		info := toNonceInfo(r)
		of[info.Reservation] = info
	}
	for _, job := range group {
		job.info, job.held = of[job.id]
		job.end(err)
	}
	return nil
}

func (s *Store) refuseHeld(job *heldJob, why *refusal) { job.end(why.err) }
