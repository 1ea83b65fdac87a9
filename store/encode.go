package store

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// commitParams lays the changes of a group out as columns. A change is known by its index in the
// group.
func commitParams(node string, group []*commitJob) db.CommitParams {
	p := db.CommitParams{OwnerNode: node}
	roomForChanges(&p, len(group))
	writes := 0
	for _, job := range group {
		writes += len(job.change.Writes)
	}
	roomForWrites(&p, writes)
	for no, job := range group {
		addChange(&p, int32(no), job)
		for i := range job.change.Writes {
			w := &job.change.Writes[i]
			addWrite(&p, int32(no), job.lease, w)
			if w.Attempt != nil {
				addAttempt(&p, int32(no), job.lease, w.Tx, *w.Attempt)
			}
		}
		for _, r := range job.change.Commands {
			addResult(&p, int32(no), job.lease, r)
		}
	}
	return p
}

// room makes columns for so many rows out of one piece of memory: they are filled one row after the
// other, and are many.
func room[T any](rows int, columns ...*[]T) {
	all := make([]T, rows*len(columns))
	for i, c := range columns {
		*c = all[i*rows : i*rows : (i+1)*rows]
	}
}

func roomForChanges(p *db.CommitParams, rows int) {
	room(rows, &p.ChangeNo, &p.SubmitterID, &p.WriteCount, &p.TakeSlot)
	room(rows, &p.FencingToken, &p.TakeNonce, &p.TakeLast, &p.InitNonce, &p.InitBlock,
		&p.ProtectExpect,
		&p.ProtectReplaces, &p.UnprotectExpect, &p.UnprotectID, &p.UnprotectTo)
	room(rows, &p.InitBlockHash)
	room(rows, &p.ProtectReason, &p.ProtectEvidence, &p.UnprotectReason, &p.NewStatus,
		&p.StatusReason)
	room(rows, &p.ProtectAsked, &p.UnprotectAsked, &p.Compared)
}

func roomForWrites(p *db.CommitParams, rows int) {
	room(rows, &p.WTxID)
	room(rows, &p.WChangeNo, &p.WSubmitterID, &p.WSlot, &p.WSubmitAttempts, &p.WRequeued,
		&p.WAccepted, &p.WPooled)
	room(rows, &p.WFencingToken, &p.WVersion, &p.WNonce, &p.WEndedBlock, &p.WDelayMs,
		&p.WReceiptBlock, &p.WReceiptGasUsed)
	room(rows, &p.WFromState, &p.WKind, &p.WState, &p.WSubState, &p.WExecuted, &p.WReason,
		&p.WLastError, &p.WLastErrorBase, &p.WLastAnswer, &p.WRejected, &p.WDiagnosis,
		&p.WReceiptGasPrice)
	room(rows, &p.WReleased, &p.WTerminal, &p.WCancelRequested, &p.WWaiting, &p.WNewFork, &p.WLate,
		&p.WReceiptSuccess, &p.WSent)
	room(rows, &p.WTxHash, &p.WAbove, &p.WEventAbove, &p.WReceiptTxHash, &p.WReceiptBlockHash,
		&p.WReceiptMore)
}

// none stands for a number that is not given.
const none = -1

func addChange(p *db.CommitParams, no int32, job *commitJob) {
	c := job.change
	take, last := int64(none), int64(none)
	init := int64(none)
	expect, unprotect := int64(none), int64(none)
	chainNonce := int64(none)
	u := txn.Unprotection{}
	var initBlock int64
	var initHash []byte
	var reason, evidence string
	var replaces int64
	if c.Take != nil {
		take, last = int64(c.Take.Nonce), int64(c.Take.Next()-1)
	}
	if c.Protect != nil {
		expect, replaces = int64(c.Protect.Expect), c.Protect.Replaces
		reason, evidence = c.Protect.Reason, c.Protect.Evidence
		if seen := c.Protect.ChainNonce; seen != nil {
			chainNonce = int64(*seen)
		}
	}
	if c.Unprotect != nil {
		u, unprotect = *c.Unprotect, int64(c.Unprotect.Expect)
	}
	if c.Init != nil {
		init = int64(c.Init.Nonce)
		initBlock, initHash = int64(c.Init.Block), c.Init.BlockHash[:]
	}
	p.ChangeNo = append(p.ChangeNo, no)
	p.SubmitterID = append(p.SubmitterID, int32(job.lease.submitter))
	p.FencingToken = append(p.FencingToken, int64(job.lease.token))
	p.WriteCount = append(p.WriteCount, int32(len(c.Writes)))
	p.TakeNonce = append(p.TakeNonce, take)
	p.TakeLast = append(p.TakeLast, last)
	p.TakeSlot = append(p.TakeSlot, highestSlot(&c))
	p.InitNonce = append(p.InitNonce, init)
	p.InitBlock = append(p.InitBlock, initBlock)
	p.InitBlockHash = append(p.InitBlockHash, initHash)
	p.ProtectExpect = append(p.ProtectExpect, expect)
	p.ProtectReplaces = append(p.ProtectReplaces, replaces)
	p.ProtectReason = append(p.ProtectReason, reason)
	p.ProtectEvidence = append(p.ProtectEvidence, evidence)
	p.ProtectChainNonce = append(p.ProtectChainNonce, chainNonce)
	p.ProtectAsked = append(p.ProtectAsked, c.Protect != nil && c.Protect.ByCommand)
	p.UnprotectExpect = append(p.UnprotectExpect, unprotect)
	p.UnprotectID = append(p.UnprotectID, u.ID)
	p.UnprotectTo = append(p.UnprotectTo, int64(u.To))
	p.UnprotectReason = append(p.UnprotectReason, u.Reason)
	p.UnprotectAsked = append(p.UnprotectAsked, u.ByCommand)
	p.NewStatus = append(p.NewStatus, string(c.Status))
	p.StatusReason = append(p.StatusReason, c.StatusReason)
	p.Compared = append(p.Compared, c.Compared)
}

// highestSlot is the highest slot of the nonces that a change takes.
func highestSlot(c *txn.Change) (slot int32) {
	for i := range c.Writes {
		if w := &c.Writes[i]; w.Kind == txn.EventAllocated {
			slot = max(slot, int32(w.Next.Slot))
		}
	}
	return slot
}

func addWrite(p *db.CommitParams, no int32, l *Lease, w *txn.Write) {
	next := &w.Next
	nonce := int64(none)
	if next.Nonce != nil {
		nonce = int64(*next.Nonce)
	}
	p.WChangeNo = append(p.WChangeNo, no)
	p.WSubmitterID = append(p.WSubmitterID, int32(l.submitter))
	p.WFencingToken = append(p.WFencingToken, int64(l.token))
	p.WTxID = append(p.WTxID, uuid.UUID(w.Tx))
	p.WVersion = append(p.WVersion, w.Version)
	p.WFromState = append(p.WFromState, string(w.From))
	p.WKind = append(p.WKind, string(w.Kind))
	p.WState = append(p.WState, string(next.State))
	p.WSubState = append(p.WSubState, string(next.Sub))
	p.WNonce = append(p.WNonce, nonce)
	p.WSlot = append(p.WSlot, int32(next.Slot))
	p.WReleased = append(p.WReleased, next.Released)
	p.WTerminal = append(p.WTerminal, next.State.Final())
	p.WTxHash = append(p.WTxHash, hashBytes(&next.TxHash))
	p.WExecuted = append(p.WExecuted, string(executed(next.Executed)))
	p.WReason = append(p.WReason, next.Reason)
	p.WLastError = append(p.WLastError, next.LastError)
	p.WLastErrorBase = append(p.WLastErrorBase, next.LastErrorBase)
	p.WSubmitAttempts = append(p.WSubmitAttempts, int32(next.SubmitAttempts))
	p.WCancelRequested = append(p.WCancelRequested, next.CancelRequested)
	p.WRequeued = append(p.WRequeued, int32(next.Requeued))
	p.WAccepted = append(p.WAccepted, int32(next.Accepted))
	p.WLastAnswer = append(p.WLastAnswer, string(next.LastOutcome))
	p.WPooled = append(p.WPooled, int32(next.Pooled))
	p.WRejected = append(p.WRejected, next.Rejected)
	p.WWaiting = append(p.WWaiting, !next.WaitingSince.IsZero())
	p.WDiagnosis = append(p.WDiagnosis, string(next.Diagnosis))
	p.WAbove = append(p.WAbove, blocks(next.Above))
	p.WEndedBlock = append(p.WEndedBlock, int64(next.FinalBlock))
	p.WNewFork = append(p.WNewFork, w.NewFork)
	p.WEventAbove = append(p.WEventAbove, blocks(w.Above))
	p.WLate = append(p.WLate, w.PastDeadline)
	p.WSent = append(p.WSent, w.Sent)
	p.WDelayMs = append(p.WDelayMs, w.Delay.Milliseconds())
	addReceipt(p, next.Receipt)
}

// noReceipt stands for a receipt that is not there.
var noReceipt = &txn.Receipt{}

func addReceipt(p *db.CommitParams, r *txn.Receipt) {
	if r == nil {
		r = noReceipt
	}
	p.WReceiptTxHash = append(p.WReceiptTxHash, hashBytes(&r.TxHash))
	p.WReceiptBlock = append(p.WReceiptBlock, int64(r.BlockNumber))
	p.WReceiptBlockHash = append(p.WReceiptBlockHash, hashBytes(&r.BlockHash))
	p.WReceiptSuccess = append(p.WReceiptSuccess, r.Success)
	p.WReceiptGasUsed = append(p.WReceiptGasUsed, int64(r.GasUsed))
	p.WReceiptGasPrice = append(p.WReceiptGasPrice, r.EffectiveGasPrice.Dec())
	p.WReceiptMore = append(p.WReceiptMore, receiptMore(r))
}

// moreBytes is the length of receipt_more without the address of a contract and the fee of a
// rollup, which follows the address. Costs reads it too.
const moreBytes = 24

// receiptMore is the column receipt_more; nil: unknown.
func receiptMore(r *txn.Receipt) []byte {
	if !r.More.Known {
		return nil
	}
	b := append(make([]byte, 0, moreBytes+len(r.More.Contract)), r.BlockHash[:8]...)
	b = binary.BigEndian.AppendUint64(b, r.More.Logs)
	b = binary.BigEndian.AppendUint64(b, r.More.CumulativeGas)
	charged := !r.More.L1Fee.IsZero()
	if r.More.Contract != (txn.Address{}) || charged {
		b = append(b, r.More.Contract[:]...)
	}
	if charged {
		fee := r.More.L1Fee.Bytes32()
		b = append(b, fee[:]...)
	}
	return b
}

func addAttempt(p *db.CommitParams, no int32, l *Lease, id txn.TxID, a txn.Attempt) {
	p.AChangeNo = append(p.AChangeNo, no)
	p.ASubmitterID = append(p.ASubmitterID, int32(l.submitter))
	p.AFencingToken = append(p.AFencingToken, int64(l.token))
	p.ATxID = append(p.ATxID, uuid.UUID(id))
	p.AAttemptNo = append(p.AAttemptNo, int32(a.No))
	p.AKind = append(p.AKind, string(a.Kind))
	p.ANonce = append(p.ANonce, int64(a.Nonce))
	p.ATxHash = append(p.ATxHash, a.Hash[:])
	p.ARawTx = append(p.ARawTx, a.Raw)
	p.AGasLimit = append(p.AGasLimit, int64(a.GasLimit))
	p.AFeeCap = append(p.AFeeCap, a.Fees.Cap.Dec())
	p.ATip = append(p.ATip, a.Fees.Tip.Dec())
	p.ALegacy = append(p.ALegacy, a.Fees.Legacy)
}

func addResult(p *db.CommitParams, no int32, l *Lease, r txn.CommandResult) {
	p.CChangeNo = append(p.CChangeNo, no)
	p.CSubmitterID = append(p.CSubmitterID, int32(l.submitter))
	p.CFencingToken = append(p.CFencingToken, int64(l.token))
	p.CCommandID = append(p.CCommandID, r.ID)
	p.CResult = append(p.CResult, r.Result)
}

// hashBytes is a hash as a column has it: nothing where there is none.
func hashBytes(h *txn.Hash) []byte {
	if *h == (txn.Hash{}) {
		return []byte{}
	}
	return h[:]
}

func executed(e txn.Executed) txn.Executed {
	if e == "" {
		return txn.Unknown
	}
	return e
}

// blocks are block references as a column has them: nothing where there are none.
func blocks(refs []txn.BlockRef) []byte {
	b := make([]byte, 0, blockBytes*len(refs))
	for _, r := range refs {
		b = append(binary.BigEndian.AppendUint64(b, r.Number), r.Hash[:]...)
	}
	return b
}
