package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

// recipients are unused accounts: this one, and those that differ from it in the last four bytes, a
// number.
var recipients = common.HexToAddress("0xCb1FA194a19101E77115eFEF0BfDA1a827080C71")

const recipientPrefix = common.AddressLength - 4

// transfer is the default payload: one wei with a fixed gas limit. Computing an address costs as
// much as a signature, which the measurement must not include.
func transfer() *pb.Payload {
	return &pb.Payload{To: recipients.Hex(), Value: "1", GasLimit: transferGas}
}

// transferOf is the payload of the i-th account, by whose recipient the chain knows it.
func transferOf(i int) *pb.Payload {
	to := recipients
	binary.BigEndian.PutUint32(to[recipientPrefix:], uint32(i))
	p := transfer()
	p.To = to.Hex()
	return p
}

// senders returns the sender of a transaction. Recovering it from the signature is the most
// expensive work of this program, and a real chain does that on its own processors. The node under
// test has already verified each signature before the broadcast (package sign). So the sender is
// derived from the recipient, where clients use one recipient per account. The signature of one
// transaction in recoverEach is still checked, and a wrong signer is refused, as by any chain.
type senders struct {
	types.Signer // recovers
	accounts     []txn.Address
}

const recoverEach = 64

func newSenders(chain txn.ChainID, accounts []txn.Address) *senders {
	return &senders{types.LatestSignerForChainID(new(big.Int).SetUint64(uint64(chain))), accounts}
}

// Sender is the account that signed.
func (s *senders) Sender(tx *types.Transaction) (txn.Address, error) {
	known, ok := s.known(tx)
	if ok && tx.Hash()[0]%recoverEach != 0 {
		return known, nil
	}
	from, err := s.Signer.Sender(tx)
	if err == nil && ok && from != known {
		return from, fmt.Errorf("signed by %s instead of %s", from, known)
	}
	return from, err
}

// known is the account whose recipient a transaction has.
func (s *senders) known(tx *types.Transaction) (account txn.Address, ok bool) {
	to := tx.To()
	if to == nil || !bytes.Equal(to[:recipientPrefix], recipients[:recipientPrefix]) ||
		tx.ChainId().Cmp(s.ChainID()) != 0 {
		return account, false
	}
	i := binary.BigEndian.Uint32(to[recipientPrefix:])
	if uint64(i) >= uint64(len(s.accounts)) {
		return account, false
	}
	return s.accounts[i], true
}

// Equal reports whether both are the same signer.
func (s *senders) Equal(other types.Signer) bool { return other == types.Signer(s) }
