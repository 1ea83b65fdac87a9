package txn

// ApprovalState is whether a transaction needs the approval of another caller, and has it.
type ApprovalState string

// The states. A transaction that was denied or has expired is final, and stays ApprovalWaiting.
const (
	NoApproval      ApprovalState = "" // it needs none
	ApprovalWaiting ApprovalState = "WAITING"
	ApprovalGiven   ApprovalState = "APPROVED"
)

// Approval is the approval of a transaction above a limit of its caller's policy.
type Approval struct {
	State ApprovalState
	By    string // the caller that approved it; never the one that created it
	MAC   []byte // authentication code; empty: none
}

// Required reports whether the transaction was accepted on condition of an approval.
func (a Approval) Required() bool { return a.State != NoApproval }

// NeedsApproval reports whether a payload is above the limit that needs an approval.
func (p *CallerPolicy) NeedsApproval(payload *Payload) bool {
	return p != nil && p.ApproveAbove != nil && payload.Value.Gt(p.ApproveAbove)
}
