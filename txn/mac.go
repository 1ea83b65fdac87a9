package txn

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"
)

// These begin the texts of codes.
const (
	macVersion      = "fencepost intent 1"
	approvalVersion = "fencepost approval 1"
	topUpVersion    = "fencepost top-up 1"
)

// ErrUnverified means that an intent is not the one that was accepted, so that its payload must not
// be signed.
var ErrUnverified = errors.New("the intent does not match its authentication code")

// IntentMAC returns the authentication code of an intent: HMAC-SHA256 of its account, request_id,
// request hash and caller, and of whether it needs an approval.
func IntentMAC(key []byte, of SubmitterID, requestID string, request [32]byte, caller string,
	approval bool) []byte {
	parts := []string{requestID, caller}
	if approval {
		parts = append(parts, string(AwaitingApproval))
	}
	return mac(key, macVersion, of, request, parts)
}

// ApprovalMAC returns the authentication code of an approval: of the intent and of who approved it.
func ApprovalMAC(key []byte, of SubmitterID, requestID string, request [32]byte,
	caller, by string) []byte {
	return mac(key, approvalVersion, of, request, []string{requestID, caller, by})
}

// TopUpMAC returns the authentication code of a decided top-up of an account.
func TopUpMAC(key []byte, of SubmitterID, no int64, treasury SubmitterID, requestID string,
	to Address, amount Wei) []byte {
	return mac(key, topUpVersion, of, amount.Bytes32(), []string{strconv.FormatInt(no, 10),
		strconv.FormatInt(int64(treasury), 10), requestID, string(to[:])})
}

func mac(key []byte, version string, of SubmitterID, request [32]byte, parts []string) []byte {
	h := hmac.New(sha256.New, key)
	text := append([]byte(version), request[:]...)
	text = binary.BigEndian.AppendUint32(text, uint32(of))
	for _, part := range parts {
		text = binary.BigEndian.AppendUint64(text, uint64(len(part)))
		text = append(text, part...)
	}
	h.Write(text)
	return h.Sum(nil)
}

// Verify reports whether payload and terms belong to the request, and whether the codes of the
// intent and of its approval are right. Missing codes are right unless they are required.
func (tx *Tx) Verify(key []byte, required bool) error {
	switch {
	case len(tx.MAC) == 0 && !required:
		return nil
	case RequestHash(tx.Payload, tx.Terms) != tx.RequestHash,
		!hmac.Equal(tx.MAC, IntentMAC(key, tx.Submitter, tx.RequestID, tx.RequestHash, tx.Caller,
			tx.Approval.Required())):
		return ErrUnverified
	case tx.Approval.State == ApprovalGiven && !hmac.Equal(tx.Approval.MAC,
		ApprovalMAC(key, tx.Submitter, tx.RequestID, tx.RequestHash, tx.Caller, tx.Approval.By)):
		return ErrUnverified
	}
	return nil
}

// Unverified is the refusal of an intent that does not match its code. It waits for an operator: a
// wrong key must not fail transactions.
func Unverified() Refusal {
	return Refusal{Reason: ReasonUnverified, Hold: true, Message: "it does not match its " +
		"authentication code: the row was written by hand, or the keys of nodes differ; cancel " +
		"it, or correct intents.key_file"}
}
