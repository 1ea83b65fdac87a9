package main

import (
	"fmt"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// unfundedTx is the transaction that the account cannot afford; nil if there is none, or it would
// not be sent anyway.
func unfundedTx(s *pb.Submitter) *pb.Waiting {
	const unfunded = pb.TxSubState_TX_SUB_STATE_UNFUNDED
	switch b, head := s.GetBlocking(), s.GetQueueHead(); {
	case b.GetSubState() == unfunded:
		return b
	case b == nil && head.GetSubState() == unfunded &&
		s.GetStatus() != pb.SubmitterStatus_SUBMITTER_STATUS_PAUSED:
		return head
	}
	return nil
}

// funding is the advice for an account that cannot afford a transaction.
func funding(s *pb.Submitter, w *pb.Waiting) (heading string, steps []string) {
	also := ""
	if w.Nonce != nil {
		also = "; the cancel transaction costs the gas of a transfer"
	}
	return fmt.Sprintf(
			"Insufficient funds. Fund %s on chain %d; the transaction then proceeds "+
				"automatically. Options:",
			s.GetAddress(),
			s.GetChainId(),
		), []string{
			"fencepost tx watch " + w.GetTxId() + "   # follow it",
			"fencepost tx cancel " + w.GetTxId() + "   # cancel it" + also,
		}
}

// remedy is the advice for an UNFUNDED transaction.
func remedy(tx *pb.Tx) string {
	if tx.GetSubState() != pb.TxSubState_TX_SUB_STATE_UNFUNDED {
		return ""
	}
	return fmt.Sprintf("fund the account; see \"fencepost submitter show %s\"",
		tx.GetSubmitter())
}

// unpaid is appended to the result of cancelling an UNFUNDED transaction.
func unpaid(tx *pb.Tx) string {
	if tx.GetSubState() != pb.TxSubState_TX_SUB_STATE_UNFUNDED {
		return ""
	}
	return "; the account cannot pay for the cancel transaction: " + remedy(tx)
}
