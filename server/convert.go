package server

import (
	"encoding/hex"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// The enums of the contract are the names of txn with a prefix; TestEnums_MatchTxn compares them.

func wireState(s txn.State) pb.TxState {
	return pb.TxState(pb.TxState_value["TX_STATE_"+string(s)])
}

func wireSub(s txn.Sub) pb.TxSubState {
	return pb.TxSubState(pb.TxSubState_value["TX_SUB_STATE_"+string(s)])
}

func wireExecuted(e txn.Executed) pb.Executed {
	return pb.Executed(pb.Executed_value["EXECUTED_"+string(e)])
}

func wireKind(k txn.Kind) pb.TxEventKind {
	return pb.TxEventKind(pb.TxEventKind_value["TX_EVENT_KIND_"+string(k)])
}

func stateOfWire(s pb.TxState) txn.State {
	return txn.State(strings.TrimPrefix(s.String(), "TX_STATE_"))
}

func exitOfWire(d pb.ProtectionDecision) txn.Action {
	return txn.Action(strings.TrimPrefix(d.String(), "PROTECTION_DECISION_"))
}

func resolveOfWire(d pb.StuckDecision) txn.Action {
	return txn.Action(strings.TrimPrefix(d.String(), "STUCK_DECISION_"))
}

func onFailureOfWire(f pb.FailurePolicy) txn.OnFailure {
	if f == pb.FailurePolicy_FAILURE_POLICY_UNSPECIFIED {
		return txn.Continue
	}
	return txn.OnFailure(strings.TrimPrefix(f.String(), "FAILURE_POLICY_"))
}

func wireOnFailure(f txn.OnFailure) pb.FailurePolicy {
	return pb.FailurePolicy(pb.FailurePolicy_value["FAILURE_POLICY_"+string(f)])
}

// lastTime is the latest time of the contract: a message with a later one has no JSON form, and
// neither has a list that contains it.
var lastTime = time.Date(9999, time.December, 31, 23, 59, 59, 999_999_000, time.UTC)

// wireTime omits an unknown time, and limits later ones, which the ledger can hold, to lastTime.
func wireTime(t time.Time) *timestamppb.Timestamp {
	switch {
	case t.IsZero():
		return nil
	case t.After(lastTime):
		return timestamppb.New(lastTime)
	}
	return timestamppb.New(t)
}

func wireHash(h txn.Hash) string {
	if h == (txn.Hash{}) {
		return ""
	}
	return hexOf(h)
}

// hexOf returns h.Hex() with one allocation instead of two: most events have three hashes.
func hexOf(h txn.Hash) string {
	var text [2 + 2*len(h)]byte
	hex.Encode(text[copy(text[:], "0x"):], h[:])
	return string(text[:])
}

func wireReceipt(r *txn.Receipt, of txn.AttemptKind) *pb.Receipt {
	if r == nil {
		return nil
	}
	out := &pb.Receipt{
		TxHash: hexOf(r.TxHash), BlockNumber: r.BlockNumber, BlockHash: hexOf(r.BlockHash),
		Success: r.Success,
		GasUsed: r.GasUsed, EffectiveGasPrice: r.EffectiveGasPrice.Dec(), Kind: string(of),
	}
	if more := &r.More; more.Known {
		out.LogCount = new(uint32(min(more.Logs, math.MaxUint32)))
		out.CumulativeGasUsed = new(more.CumulativeGas)
		if more.Contract != (txn.Address{}) {
			out.ContractAddress = more.Contract.Hex()
		}
		if !more.L1Fee.IsZero() {
			out.L1Fee = more.L1Fee.Dec()
		}
	}
	return out
}

func wireBlocks(refs []txn.BlockRef) (out []*pb.BlockRef) {
	for _, r := range refs {
		out = append(out, &pb.BlockRef{Number: r.Number, Hash: hexOf(r.Hash)})
	}
	return out
}

// wireRecipient returns "" for a contract creation.
func wireRecipient(to *txn.Address) string {
	if to == nil {
		return ""
	}
	return to.Hex()
}

// wireTx returns the client's view of a transaction.
func wireTx(t store.TxInfo) *pb.Tx { return wireTxTo(&t, wireRecipient(t.Payload.To)) }

// wireCreated is wireTx for the client that sent the request. Computing a checksum address is the
// most expensive part of the response, so it reuses the validated one of the request, if any.
func wireCreated(t *store.TxInfo, r *pb.CreateTxRequest) *pb.Tx {
	if to := r.GetPayload().GetTo(); txn.HasChecksum(to) {
		return wireTxTo(t, to)
	}
	return wireTxTo(t, wireRecipient(t.Payload.To))
}

func wireTxTo(t *store.TxInfo, to string) *pb.Tx {
	return &pb.Tx{
		TxId: t.ID.String(), Submitter: t.SubmitterName, RequestId: t.RequestID,
		State: wireState(t.State), SubState: wireSub(t.Sub), Version: uint64(t.Version),
		Payload: &pb.Payload{
			To:       to,
			Value:    t.Payload.Value.Dec(),
			Data:     t.Payload.Data,
			GasLimit: t.Payload.GasLimit,
		}, TxHash: wireHash(t.TxHash), Receipt: wireReceipt(t.Receipt, t.Included),
		Executed: wireExecuted(t.Executed), RetrySafe: t.State.Final() && t.Executed == txn.No,
		Reason: t.Reason, LastError: t.LastError, CancelRequested: t.CancelRequested,
		CreateTime: wireTime(t.CreatedAt), UpdateTime: wireTime(t.UpdatedAt),
		FinalTime:         wireTime(t.FinalAt),
		EventsArchiveTime: wireTime(t.TrimmedAt), ArchiveTime: wireTime(t.ArchivedAt),
		Terms: wireTerms(t.Terms), Confirmations: wireBlocks(t.Above), Labels: t.Labels,
		Pool: t.Pool,
	}
}

// wireOperator returns the operator's view of a transaction.
func wireOperator(t store.TxInfo, attempts []txn.Attempt) *pb.OperatorDetails {
	out := &pb.OperatorDetails{
		Caller:   t.Caller,
		QueueSeq: t.QueueSeq, FencingToken: int64(t.Token), AcceptedAttempt: uint32(t.Accepted),
		Diagnosis: string(t.Diagnosis),
	}
	// Without a nonce SubmitAttempts counts attempts to prepare; nothing was broadcast.
	if t.Nonce != nil {
		out.Nonce, out.SubmitAttempts = new(uint64(*t.Nonce)), uint32(t.SubmitAttempts)
	}
	if t.LastSubmit != nil {
		out.LastSubmitTime = wireTime(*t.LastSubmit)
	}
	for _, a := range attempts {
		out.Attempts = append(out.Attempts, &pb.Attempt{
			AttemptNo: uint32(a.No), Kind: string(a.Kind), TxHash: hexOf(a.Hash),
			GasLimit: a.GasLimit,
			FeeCap:   a.Fees.Cap.Dec(), Tip: a.Fees.Tip.Dec(), CreateTime: wireTime(a.At),
		})
	}
	return out
}

func wireEvent(e *store.EventInfo) *pb.TxEvent {
	return &pb.TxEvent{
		TxId: e.Tx.String(), Submitter: e.SubmitterName, Seq: uint64(e.Seq), Kind: wireKind(e.Kind),
		State: wireState(e.State), SubState: wireSub(e.Sub), Executed: wireExecuted(e.Executed),
		TxHash: wireHash(e.TxHash), Receipt: wireReceipt(e.Receipt, e.Included), Reason: e.Reason,
		Message: e.Message, Time: wireTime(e.At),
		NewFork: e.NewFork, Confirmations: wireBlocks(e.Above),
	}
}

// wireAccountEvent returns the message of an event of an account.
func wireAccountEvent(e *store.EventInfo) *pb.AccountEvent {
	m := &pb.AccountEvent{
		Id: e.Tx.String(), Submitter: e.SubmitterName, Seq: uint64(e.Seq),
		Kind: pb.AccountEventKind(pb.AccountEventKind_value["ACCOUNT_EVENT_KIND_"+string(e.Kind)]),
		Time: wireTime(e.At),
	}
	if of, err := txn.ParseLowBalance(e.Message); err == nil {
		m.Balance, m.Committed = of.Balance, of.Committed
		m.Low, m.Block = of.Low, of.Block
	}
	return m
}

func wireSubmitter(s store.SubmitterInfo) *pb.Submitter {
	out := &pb.Submitter{
		Name: s.Name, AccountId: txn.AccountID(s.Chain, s.Address), ChainId: uint64(s.Chain),
		Address: s.Address.Hex(), Signer: s.Signer,
		Mode:        pb.SubmitterMode(pb.SubmitterMode_value["SUBMITTER_MODE_"+string(s.Mode)]),
		MaxInFlight: int32(s.Limit),
		Status: pb.SubmitterStatus(pb.SubmitterStatus_value["SUBMITTER_STATUS_"+
			string(s.Status)]),

		StartFrom: s.StartFrom, Lease: wireLease(s.Lease), Queued: s.Queued,
		QueuedIsAtLeast: s.More, InFlight: s.InFlight, CreateTime: wireTime(s.CreatedAt),
		OnFailure: wireOnFailure(s.OnFailure), MaxFee: wireLimit(s.MaxFee),
		Unfunded: s.Unfunded, QueueHeadTime: wireTime(s.QueueHeadAt),
	}
	if p := s.Pause; p != nil {
		out.Pause = &pb.Pause{
			PauseId:   p.ID,
			Reason:    p.Reason,
			Operator:  p.Operator,
			Time:      wireTime(p.At),
			OnFailure: p.OnFailure,
		}
	}
	if s.Cursor != nil {
		out.NextNonce, out.InitNonce = new(uint64(s.Cursor.Next)), new(uint64(s.Cursor.Init))
		if p := s.Cursor.Protected; p != nil {
			out.Protection = &pb.Protection{
				ProtectionId: p.ID,
				Reason:       p.Reason,
				Evidence:     p.Evidence,
				Time:         wireTime(p.At),
				ChainNonce:   (*uint64)(p.ChainNonce),
			}
		}
	}
	return out
}

// wireLease names the owner only while the lease is live. A lease that was never acquired in this
// ledger has no times: it expired in 1970.
func wireLease(l store.LeaseInfo) *pb.LeaseInfo {
	out := &pb.LeaseInfo{FencingToken: int64(l.Token)}
	if l.Token > 0 && l.ExpiresAt.Unix() > 0 {
		out.AcquireTime, out.ExpireTime = wireTime(l.AcquiredAt), wireTime(l.ExpiresAt)
	}
	if l.Live {
		out.OwnerNode = l.OwnerNode
	}
	return out
}

// wireWaiting returns nil for a nil transaction.
func wireWaiting(t *txn.Tx) *pb.Waiting {
	if t == nil {
		return nil
	}
	out := &pb.Waiting{
		TxId: t.ID.String(), RequestId: t.RequestID, State: wireState(t.State),
		SubState: wireSub(t.Sub), Reason: t.Reason, Message: t.LastError,
		CreateTime: wireTime(t.CreatedAt), Version: uint64(t.Version), Restored: t.Restored,
	}
	if t.Nonce != nil {
		out.Nonce = new(uint64(*t.Nonce))
	}
	return out
}

func wireGaps(gaps []store.Gap) (out []*pb.NonceGap) {
	for _, g := range gaps {
		out = append(out, &pb.NonceGap{
			FirstNonce: uint64(g.First),
			LastNonce:  uint64(g.Last),
			TxId:       wireID(g.Tx),
			Reason:     g.Reason,
			Time:       wireTime(g.At),
		})
	}
	return out
}

// wireID returns "" for a nil or zero id.
func wireID(id *txn.TxID) string {
	if id == nil || *id == (txn.TxID{}) {
		return ""
	}
	return id.String()
}

func wireCommand(c store.CommandInfo) *pb.Command {
	out := &pb.Command{
		Submitter: c.Submitter, Sink: c.Sink,
		CommandId: c.ID, Kind: string(c.Kind), Action: string(c.Action), TxId: wireID(&c.Tx),
		Reason: c.Reason, Operator: c.Operator, Caller: c.Caller,
		CreateTime: wireTime(c.CreatedAt), ApplyTime: wireTime(c.AppliedAt), Result: c.Result,
	}
	if c.Kind == txn.CommandExitProtect || c.Kind == txn.CommandProtect {
		out.ProtectionId = c.Expect
	}
	return out
}
