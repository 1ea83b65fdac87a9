package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// ErrNotHeld is returned for a transaction whose reservation does not hold its nonce.
var ErrNotHeld = errors.New("the reservation does not hold the nonce for this transaction")

// maxSigned bounds the bytes of clients that an owner records at once.
const maxSigned = 16

// ReservedTx is a transaction for a reserved nonce.
type ReservedTx struct {
	Reservation txn.ReservationID
	Payload     txn.Payload
	Caller      string
	Signed      *txn.Attempt // by the client; nil: Fencepost signs a cancel transaction
}

// QueueReserved queues the transaction of a reserved nonce, or returns the one that it has.
func (s *Store) QueueReserved(ctx context.Context, r ReservedTx) (txn.TxID, error) {
	submitter := r.Reservation.Submitter()
	verb := fmt.Sprintf("queue the transaction of reservation %s", r.Reservation)
	id, err := txn.NewTxID(s.clock.Now(), submitter)
	if err != nil {
		return id, fmt.Errorf("store: %s: %w", verb, err)
	}
	hash := txn.RequestHash(r.Payload, txn.Terms{})
	p := db.InsertReservedParams{
		SubmitterID: int32(submitter), ReservationID: uuid.UUID(r.Reservation),
		TxID: uuid.UUID(id), RequestHash: hash[:], ToAddress: []byte{},
		ValueWei: r.Payload.Value.Dec(), Data: r.Payload.Data,
		PayloadGas: int64(r.Payload.GasLimit), Caller: r.Caller, Signed: r.Signed != nil,
		TxHash: []byte{}, RawTx: []byte{}, FeeCap: "0", Tip: "0",
	}
	if r.Payload.To != nil {
		p.ToAddress = r.Payload.To[:]
	}
	if p.Data == nil {
		p.Data = []byte{}
	}
	if a := r.Signed; a != nil {
		p.TxHash, p.RawTx = a.Hash[:], a.Raw
		p.Nonce = int64(a.Nonce)
		p.GasLimit, p.Legacy = int64(a.GasLimit), a.Fees.Legacy
		p.FeeCap, p.Tip = a.Fees.Cap.Dec(), a.Fees.Tip.Dec()
	}
	_, err = s.read().InsertReserved(ctx, p)
	if errors.Is(err, pgx.ErrNoRows) {
		info, err := s.TxByRequest(ctx, submitter, "reservation/"+r.Reservation.String())
		if errors.Is(err, ErrTxNotFound) {
			return id, fmt.Errorf("store: %s: %w", verb, ErrNotHeld)
		}
		return info.ID, err
	}
	if err != nil {
		return id, s.failed(ctx, verb, err)
	}
	s.wakes.wake(submitter)
	s.wakes.signalEvents()
	return id, nil
}

// AddSigned records bytes that replace those of a client's transaction. added is false if the
// transaction is final, or has these bytes.
func (s *Store) AddSigned(ctx context.Context, id txn.TxID, a txn.Attempt) (added bool, err error) {
	n, err := s.read().InsertSignedBytes(ctx, db.InsertSignedBytesParams{
		SubmitterID: int32(id.Submitter()), TxID: uuid.UUID(id), TxHash: a.Hash[:],
		Nonce: int64(a.Nonce), Kind: string(a.Kind), RawTx: a.Raw, GasLimit: int64(a.GasLimit),
		FeeCap: a.Fees.Cap.Dec(), Tip: a.Fees.Tip.Dec(), Legacy: a.Fees.Legacy,
	})
	if err != nil {
		return false, s.failed(ctx, fmt.Sprintf("add signed bytes of transaction %s", id), err)
	}
	s.wakes.wake(id.Submitter())
	return n > 0, nil
}

// SignedInbox is bytes of clients that no attempt has yet, lowest nonce first.
type SignedInbox struct {
	List []txn.SignedBytes
	More bool // there may be others
}

// PendingSigned reads bytes of clients that no attempt has yet, of each submitter. Its owner has
// read the first transactions of the queue, as many as in heads.
func (s *Store) PendingSigned(ctx context.Context, ids []txn.SubmitterID,
	heads ...int) (map[txn.SubmitterID]SignedInbox, error) {
	verb := fmt.Sprintf("read the signed bytes of %d submitters", len(ids))
	rows, err := s.own().PendingSigned(ctx, db.PendingSignedParams{
		SubmitterIds: plain(ids), Heads: rowLimits(len(ids), heads), MaxRows: maxSigned})
	if err != nil {
		return nil, s.failed(ctx, verb, err)
	}
	of := make(map[txn.SubmitterID]SignedInbox, len(ids))
	for _, r := range rows {
		one := txn.SignedBytes{Tx: txn.TxID(r.TxID)}
		one.Attempt, err = toAttempt(db.OpenAttemptsRow{
			Kind: r.Kind, Nonce: r.Nonce, TxHash: r.TxHash, RawTx: r.RawTx, GasLimit: r.GasLimit,
			FeeCap: r.FeeCap, Tip: r.Tip, Legacy: r.Legacy,
		}, time.Time{})
		if err != nil {
			return nil, s.failed(ctx, verb, fmt.Errorf("transaction %s: %w", one.Tx, err))
		}
		id := txn.SubmitterID(r.SubmitterID)
		box := of[id]
		box.List = append(box.List, one)
		box.More = len(box.List) == maxSigned
		of[id] = box
	}
	return of, nil
}
