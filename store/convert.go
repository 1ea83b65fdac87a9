package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holiman/uint256"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// toTx makes a transaction of its row. Only an amount or an address can fail to be read, which the
// table's checks rule out for most columns.
func toTx(r db.ManagedTx) (txn.Tx, error) {
	value, err := toWei(r.Value)
	if err != nil {
		return txn.Tx{}, err
	}
	status, err := toStatus(r)
	if err != nil {
		return txn.Tx{}, err
	}
	tx := txn.Tx{
		ID: txn.TxID(r.TxID), Submitter: txn.SubmitterID(r.SubmitterID), RequestID: r.RequestID,
		RequestHash: toHash(r.RequestHash), QueueSeq: r.QueueSeq,
		Payload: txn.Payload{
			Value:    value,
			Data:     r.Data,
			GasLimit: uint64(r.GasLimit),
		}, Terms: txn.Terms{Speed: txn.Speed(r.Speed), CancelLate: r.CancelLate},
		Status: status,
		Token:  txn.Token(r.FencingToken), Restored: r.Restored, CreatedAt: r.CreatedAt,
		UpdatedAt: r.UpdatedAt, Caller: r.Caller, MAC: r.Mac,
		Approval: txn.Approval{
			State: txn.ApprovalState(r.Approval), By: r.ApprovedBy, MAC: r.ApprovalMac,
		},
	}
	if r.MaxFee != nil {
		if tx.Terms.MaxFee, err = toWei(*r.MaxFee); err != nil {
			return txn.Tx{}, err
		}
	}
	if r.NotAfter != nil {
		tx.Terms.NotAfter = *r.NotAfter
	}
	if r.WaitingSince != nil {
		tx.WaitingSince = *r.WaitingSince
	}
	switch n := len(r.ToAddress); n {
	case 0:
	case len(txn.Address{}):
		tx.Payload.To = new(txn.Address(r.ToAddress))
	default:
		return txn.Tx{}, unreadable(fmt.Sprintf("unreadable address of %d bytes", n))
	}
	if r.TerminalAt != nil {
		tx.FinalAt = *r.TerminalAt
	}
	if r.TrimmedAt != nil {
		tx.TrimmedAt = *r.TrimmedAt
	}
	if r.ArchivedAt != nil {
		tx.ArchivedAt = *r.ArchivedAt
	}
	if r.ReservationID != nil {
		tx.Reservation, tx.Signed = txn.ReservationID(*r.ReservationID), r.Signed
	}
	if r.TraceParent != nil {
		tx.TraceParent = *r.TraceParent
	}
	return tx, nil
}

// toStatus returns the fields of a row that change with each move.
func toStatus(r db.ManagedTx) (txn.Status, error) {
	receipt, err := toReceipt(r.ReceiptTxHash, r.ReceiptBlock, r.ReceiptBlockHash, r.ReceiptSuccess,
		r.ReceiptGasUsed, r.ReceiptGasPrice, r.ReceiptMore)
	if err != nil {
		return txn.Status{}, err
	}
	status := txn.Status{
		State: txn.State(r.State), Sub: txn.Sub(r.SubState), Version: r.Version, Slot: r.Slot,
		Released: r.ReleasedAt != nil,
		TxHash:   toHash(r.TxHash), Receipt: receipt, Executed: txn.Executed(r.Executed),
		Reason:         r.Reason,
		LastError:      r.LastError,
		LastErrorBase:  txn.BaseOf(r.LastError, r.LastErrorBase),
		SubmitAttempts: int(r.SubmitAttempts), CancelRequested: r.CancelRequested,
		Requeued: int(r.Requeued),
		Accepted: int(r.AcceptedAttempt), LastOutcome: txn.Class(r.LastAnswer),
		Pooled:    int(r.PooledAttempt),
		Rejected:  r.Rejected,
		Diagnosis: txn.Diagnosis(r.Diagnosis), Above: toBlocks(r.Above),
	}
	if r.Nonce != nil {
		nonce := txn.Nonce(*r.Nonce)
		status.Nonce = &nonce
	}
	if r.EndedBlock != nil {
		status.FinalBlock = uint64(*r.EndedBlock)
	}
	return status, nil
}

// toDueTx also turns the times that are left or have passed, by the database's clock, into times of
// ours: nothing is judged by comparing one clock's time with the other's.
func (s *Store) toDueTx(r db.ManagedTx, dueMillis, lateMillis, waitedMillis int64) (txn.Tx, error) {
	tx, err := toTx(r)
	if err != nil {
		return tx, fmt.Errorf("transaction %s: %w", txn.TxID(r.TxID), err)
	}
	if dueMillis > 0 {
		tx.Due = s.clock.Now().Add(time.Duration(dueMillis) * time.Millisecond)
	}
	if r.NotAfter != nil {
		tx.Deadline = s.clock.Now().Add(time.Duration(lateMillis) * time.Millisecond)
	}
	if r.WaitingSince != nil {
		tx.WaitingSince = s.clock.Now().Add(-time.Duration(waitedMillis) * time.Millisecond)
	}
	return tx, nil
}

func toReceipt(hash []byte, block *int64, blockHash []byte, success *bool, gasUsed *int64,
	gasPrice *string, more []byte) (*txn.Receipt, error) {
	if len(hash) == 0 || block == nil || success == nil || gasUsed == nil || gasPrice == nil {
		return nil, nil
	}
	price, err := toWei(*gasPrice)
	if err != nil {
		return nil, err
	}
	return &txn.Receipt{
		TxHash: toHash(hash), BlockNumber: uint64(*block), BlockHash: toHash(blockHash),
		Success: *success,
		GasUsed: uint64(*gasUsed), EffectiveGasPrice: price, More: toMore(more, blockHash),
	}, nil
}

// toMore reads the column receipt_more. It is unknown if it belongs to another block's receipt.
func toMore(b, blockHash []byte) (m txn.ReceiptMore) {
	if len(b) < moreBytes || !bytes.HasPrefix(blockHash, b[:8]) {
		return m
	}
	m.Known = true
	m.Logs = binary.BigEndian.Uint64(b[8:])
	m.CumulativeGas = binary.BigEndian.Uint64(b[16:])
	if n := copy(m.Contract[:], b[moreBytes:]); len(b) >= moreBytes+n+32 {
		m.L1Fee.SetBytes32(b[moreBytes+n:])
	}
	return m
}

func toWei(decimal string) (txn.Wei, error) {
	w, err := uint256.FromDecimal(decimal)
	if err != nil {
		return txn.Wei{}, unreadable(fmt.Sprintf("unreadable amount %q", decimal))
	}
	return *w, nil
}

// toHash takes the bytes of a column; none make the zero hash.
func toHash(b []byte) (h [32]byte) {
	copy(h[:], b)
	return h
}

// toAgedAttempt turns the age of an attempt, by the database's clock, into a time of ours.
func (s *Store) toAgedAttempt(r db.OpenAttemptsRow) (txn.Attempt, error) {
	return toAttempt(r, s.clock.Now().Add(-time.Duration(r.AgeMs)*time.Millisecond))
}

func toAttempt(r db.OpenAttemptsRow, at time.Time) (txn.Attempt, error) {
	feeCap, err := toWei(r.FeeCap)
	if err != nil {
		return txn.Attempt{}, err
	}
	tip, err := toWei(r.Tip)
	if err != nil {
		return txn.Attempt{}, err
	}
	return txn.Attempt{
		No: int(r.AttemptNo), Kind: txn.AttemptKind(r.Kind), Nonce: txn.Nonce(r.Nonce),
		Hash: toHash(r.TxHash), Raw: r.RawTx, GasLimit: uint64(r.GasLimit),
		Fees: txn.Fees{Cap: feeCap, Tip: tip, Legacy: r.Legacy}, At: at,
	}, nil
}

func (s *Store) attemptsByTx(rows []db.OpenAttemptsRow) (map[txn.TxID][]txn.Attempt, error) {
	of := map[txn.TxID][]txn.Attempt{}
	for _, r := range rows {
		a, err := s.toAgedAttempt(r)
		if err != nil {
			return nil, err
		}
		of[txn.TxID(r.TxID)] = append(of[txn.TxID(r.TxID)], a)
	}
	return of, nil
}

func toSubmitter(r db.OwnedSubmitterRow) (txn.Submitter, error) {
	if len(r.Address) != len(txn.Address{}) {
		return txn.Submitter{}, fmt.Errorf("the address of submitter %d has %d bytes",
			r.SubmitterID, len(r.Address))
	}
	maxFee, err := toWei(r.MaxFee)
	if err != nil {
		return txn.Submitter{}, err
	}
	return txn.Submitter{
		ID: txn.SubmitterID(r.SubmitterID), Name: r.Name, Chain: txn.ChainID(r.ChainID),
		Address: txn.Address(r.Address), Signer: r.Signer,
		Mode: txn.Mode(r.Mode), Limit: int(r.MaxInFlight), Status: txn.SubmitterStatus(r.Status),
		StartFrom: r.StartFrom, CreatedAt: r.CreatedAt,
		OnFailure: txn.OnFailure(r.OnFailure), MaxFee: maxFee, PauseID: r.PauseID,
	}, nil
}

func toCursor(next, init, protections *int64, reason, evidence *string, at *time.Time) *txn.Cursor {
	if next == nil || init == nil || protections == nil {
		return nil
	}
	c := &txn.Cursor{Next: txn.Nonce(*next), Init: txn.Nonce(*init), Protections: *protections}
	if reason != nil && at != nil {
		c.Protected = &txn.Protected{ID: *protections, Reason: *reason, At: *at}
		if evidence != nil {
			c.Protected.Evidence = *evidence
		}
	}
	return c
}

func toCommand(k db.InboxCommandsRow) txn.Command {
	command := txn.Command{
		ID: k.CommandID, Kind: txn.CommandKind(k.Kind), Action: txn.Action(k.Action),
		Expect: k.Expect, Reason: k.Reason, Operator: k.Operator,
	}
	if k.TxID != nil {
		command.Tx = txn.TxID(*k.TxID)
	}
	return command
}

func toEvent(r db.EventsSinceRow) (EventInfo, error) {
	receipt, err := toReceipt(r.ReceiptTxHash, r.ReceiptBlock, r.ReceiptBlockHash, r.ReceiptSuccess,
		r.ReceiptGasUsed, r.ReceiptGasPrice, r.ReceiptMore)
	if err != nil {
		return EventInfo{}, err
	}
	labels, err := toLabels(r.Labels)
	if err != nil {
		return EventInfo{}, err
	}
	return EventInfo{
		Event: txn.Event{
			Tx: txn.TxID(r.TxID), Submitter: txn.SubmitterID(r.SubmitterID), Seq: r.Seq,
			Kind: txn.Kind(r.Kind), State: txn.State(r.State),
			Sub: txn.Sub(r.SubState), Executed: txn.Executed(r.Executed), TxHash: toHash(r.TxHash),
			Receipt: receipt, Reason: r.Reason, Message: r.Message,
			NewFork: r.NewFork, Above: toBlocks(r.Above), At: r.CreatedAt,
		},
		SubmitterName: r.SubmitterName, Xid: r.Xid, Labels: labels,
		Included: txn.AttemptKind(r.ReceiptKind),
	}, nil
}

// blockBytes is a block as a column has it: 8 bytes of number, 32 of hash.
const blockBytes = 40

func toBlocks(b []byte) []txn.BlockRef {
	var refs []txn.BlockRef
	for ; len(b) >= blockBytes; b = b[blockBytes:] {
		refs = append(refs,
			txn.BlockRef{Number: binary.BigEndian.Uint64(b), Hash: txn.Hash(b[8:blockBytes])})
	}
	return refs
}
