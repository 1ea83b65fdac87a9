package main

import (
	"fmt"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// lacksMoney is what the account of a submitter cannot pay for; nil if there is none, or nothing would be sent of it anyway.
func lacksMoney(s *pb.Submitter) *pb.Waiting {
	const unfunded = pb.TxSubState_TX_SUB_STATE_UNFUNDED
	switch b, head := s.GetBlocking(), s.GetQueueHead(); {
	case b.GetSubState() == unfunded:
		return b
	case b == nil && head.GetSubState() == unfunded && s.GetStatus() != pb.SubmitterStatus_SUBMITTER_STATUS_PAUSED:
		return head
	}
	return nil
}

// funding tells what there is to do about it.
func funding(s *pb.Submitter, w *pb.Waiting) (heading string, ways []string) {
	also := ""
	if w.Nonce != nil {
		also = ", which is sent under the same nonce and needs the gas of a transfer"
	}
	return fmt.Sprintf(
			"The account cannot pay. Send money to %s on chain %d: what waits for it goes on by itself then, and nothing is to be decided. You can:",
			s.GetAddress(),
			s.GetChainId(),
		), []string{
			"fencepost tx watch " + w.GetTxId() + "   # see it go on",
			"fencepost tx cancel " + w.GetTxId() + "   # or have it not run" + also,
		}
}

// remedy is what to do about a transaction that waits for money.
func remedy(tx *pb.Tx) string {
	if tx.GetSubState() != pb.TxSubState_TX_SUB_STATE_UNFUNDED {
		return ""
	}
	return fmt.Sprintf("send money to the account: \"fencepost submitter show %s\" names it",
		tx.GetSubmitter())
}

// unpaid is the end of a sentence about a transaction that waits for money.
func unpaid(tx *pb.Tx) string {
	if tx.GetSubState() != pb.TxSubState_TX_SUB_STATE_UNFUNDED {
		return ""
	}
	return "; the account cannot pay now, and a cancel has to be paid for as well: " + remedy(tx)
}
