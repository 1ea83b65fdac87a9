package conformance

import (
	"errors"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// leastTip is the client's default minimum tip.
const leastTip = 1_000_000

// market queries fees at each speed, and within a given cap.
func (s *suite) market() {
	var cheapest txn.Fees
	for _, speed := range []txn.Speed{txn.Slow, txn.Standard, txn.Fast} {
		fees, o := s.Chain.Fees(s.Context(), txn.FeeRequest{Speed: speed})
		if o.Class != txn.Accepted || fees.Tip.Gt(&fees.Cap) || fees.Cap.IsZero() {
			s.Fatalf("speed %q: %+v, %+v", speed, fees, o)
		}
		if fees.Tip.Lt(&cheapest.Tip) {
			s.Errorf("speed %q has a tip of %s, a slower one %s", speed, fees.Tip.Dec(),
				cheapest.Tip.Dec())
		}
		cheapest = fees
	}
	base := s.head().BaseFee
	if base == nil {
		return // a legacy price adapts to any cap
	}
	key := s.actor()
	var low txn.Wei
	low.Rsh(base,
		3) // base fees fall by at most an eighth per block, and do not reach it meanwhile
	if low.IsZero() {
		return
	}
	if fees, o := s.Chain.Fees(s.Context(),
		txn.FeeRequest{Limit: low}); o.Class != txn.FeeCapBelowBaseFee {
		s.Errorf("fees %+v, %+v for a cap far below the base fee", fees, o)
	}
	to := txn.Address{0xfe}
	if q, o := s.Chain.Quote(
		s.Context(),
		txn.Draft{From: addressOf(key), Payload: txn.Payload{To: &to}, MaxFee: low},
	); o.Class != txn.FeeCapBelowBaseFee {
		s.Errorf("quote %+v, %+v for a cap far below the base fee", q, o)
	}
	var room txn.Wei
	room.Mul(base, uint256.NewInt(3))
	room.AddUint64(&room, leastTip) // below it nothing is sent, however low the base fee is
	if q, o := s.Chain.Quote(
		s.Context(),
		txn.Draft{
			From:    addressOf(key),
			Payload: txn.Payload{To: &to},
			MaxFee:  room,
			Speed:   txn.Fast,
		},
	); o.Class != txn.Accepted ||
		q.Fees.Cap.Gt(&room) {
		s.Errorf("quote %+v, %+v within a cap of %s", q, o, room.Dec())
	}
}

// gas estimates a transfer, also from an account without funds, and a call that reverts.
func (s *suite) gas() {
	self := addressOf(s.Key)
	poor := txn.Address{0x90, 0x0e}
	for _, from := range []txn.Address{self, poor} {
		if gas, o := s.Chain.Gas(
			s.Context(),
			txn.Draft{From: from, Payload: txn.Payload{To: &from}},
		); o.Class != txn.Accepted ||
			gas != 21_000 {
			s.Errorf("gas of a self-transfer of 0 from %s: %d, %+v", from, gas, o)
		}
	}
	key := s.actor()
	reverter, _ := s.reverter(key, 0)
	if gas, o := s.Chain.Gas(
		s.Context(),
		txn.Draft{From: addressOf(key), Payload: txn.Payload{To: &reverter}},
	); o.Class != txn.ExecutionReverted {
		s.Errorf("gas of a revert: %d, %+v", gas, o)
	}
}

func (s *suite) shows(address txn.Address, nonce txn.Nonce, want txn.Diagnosis,
	hashes ...txn.Hash) bool {
	s.Helper()
	got, err := s.Chain.Pooled(s.Context(), address, nonce, hashes)
	if err != nil {
		return false // a node that has just started may still be indexing
	}
	return got == want
}

// pooled follows a nonce through its life. Above a gap nothing is included meanwhile.
func (s *suite) pooled() {
	key := s.actor()
	from, never := addressOf(key), common.HexToHash("0x404")
	s.soon("nothing in the pool", func() bool { return s.shows(from, 0, txn.PossiblyLost, never) })
	if !s.Quirks.RefusesGaps {
		waiting := s.sign(s.transfer(key, 1))
		s.mustSend(waiting, txn.Accepted)
		s.soon("in the pool above a gap",
			func() bool { return s.shows(from, 1, txn.InPool, never, waiting.Hash) })
	}
	first := s.sign(s.transfer(key, 0))
	s.mustSend(first, txn.Accepted)
	if s.Manual {
		s.soon("in the pool", func() bool { return s.shows(from, 0, txn.InPool, first.Hash) })
		s.soon("another one in the pool",
			func() bool { return s.shows(from, 0, txn.PossiblyReplaced, never) })
	}
	s.mined(first.Hash)
	s.until("the nonce used",
		func() bool { return s.shows(from, 0, txn.NonceConsumed, first.Hash) })
	s.until("the nonce used by another",
		func() bool { return s.shows(from, 0, txn.NonceConsumed, never) })
}

func (s *suite) tagged() {
	for _, tag := range []string{"safe", "finalized"} {
		block, err := s.Chain.Tagged(s.Context(), tag)
		if s.Quirks.NoTags {
			if err == nil || errors.Is(err, txn.ErrUnavailable) {
				s.Errorf("%s: %+v, %v; want ErrNoTags", tag,
					block, err)
			}
			continue
		}
		if err != nil {
			s.Fatalf("%s: %v", tag, err)
		}
		if block == nil {
			continue // none yet
		}
		canonical, err := s.Chain.BlockByNumber(s.Context(), block.Number)
		if err != nil || canonical == nil || canonical.Hash != block.Hash ||
			block.Number > s.head().Number {
			s.Errorf("%s: %+v; the canonical block of that height is %+v, %v", tag, block,
				canonical, err)
		}
	}
	if block, err := s.Chain.Tagged(s.Context(), "newest"); err == nil ||
		errors.Is(err, txn.ErrUnavailable) {
		s.Errorf("an unknown tag: %+v, %v", block, err)
	}
}

// crowd puts many transactions into one block, so that their receipts are read by block if
// supported.
func (s *suite) crowd() {
	const many = 12
	key := s.actor()
	var hashes []txn.Hash
	for nonce := range uint64(many) {
		signed := s.sign(s.transfer(key, nonce))
		s.mustSend(signed, txn.Accepted)
		hashes = append(hashes, signed.Hash)
	}
	s.mined(hashes[many-1])
	// As a tracker does: read the blocks, then the receipts of their transactions.
	for at := s.head(); ; {
		if slices.Contains(at.Txs, hashes[0]) || at.Number == 0 {
			break
		}
		parent, err := s.Chain.BlockByHash(s.Context(), at.Parent)
		if err != nil || parent == nil {
			s.Fatalf("the parent of block %d: %+v, %v", at.Number, parent, err)
		}
		at = *parent
	}
	for i, a := range s.Chain.Receipts(s.Context(), append(hashes, common.HexToHash("0x404"))) {
		if i == many {
			if a.Err != nil || a.Receipt != nil {
				s.Errorf("unknown hash: %+v", a)
			}
			continue
		}
		if a.Err != nil || a.Receipt == nil || a.Receipt.TxHash != hashes[i] ||
			a.Hash != hashes[i] ||
			!a.Receipt.Success ||
			a.Receipt.EffectiveGasPrice.IsZero() {
			s.Errorf("receipt %d: %+v", i, a)
		}
	}
}

// delegated gives an account code by an EIP-7702 authorization that another account sends: its
// nonce rises without a transaction of its own.
func (s *suite) delegated() {
	if s.Quirks.NoDelegation {
		return
	}
	sponsor, key := s.actor(), s.actor()
	authority, fees := addressOf(key), s.fees()
	if a := s.view(authority, 0); a.HasCode || a.Latest != 0 {
		s.Fatalf("a new account: %+v", a)
	}
	auth, err := types.SignSetCode(
		key,
		types.SetCodeAuthorization{
			ChainID: *uint256.NewInt(uint64(s.ChainID)),
			Address: txn.Address{0xde},
			Nonce:   0,
		},
	)
	if err != nil {
		s.Fatal(err)
	}
	tx, err := types.SignNewTx(
		sponsor,
		types.LatestSignerForChainID(auth.ChainID.ToBig()),
		&types.SetCodeTx{
			ChainID:   &auth.ChainID,
			To:        txn.Address{0xfe},
			Gas:       200_000,
			GasFeeCap: &fees.Cap,
			GasTipCap: &fees.Tip,
			AuthList:  []types.SetCodeAuthorization{auth},
		},
	)
	if err != nil {
		s.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		s.Fatal(err)
	}
	s.mustSend(txn.Signed{Hash: tx.Hash(), Raw: raw}, txn.Accepted)
	s.mined(tx.Hash())
	s.until("the code of the account", func() bool { return s.view(authority, 0).HasCode })
	if a := s.view(authority, 0); a.Latest != 1 || a.Delegate != auth.Address {
		s.Errorf("delegated account: %+v, want its nonce used", a)
	}
	if s.view(addressOf(sponsor), 0).HasCode {
		s.Error("the sender of the authorization has code as well")
	}
	if by, err := s.Chain.Consumer(s.Context(), authority, 0); err != nil || by == nil ||
		by.TxHash != (txn.Hash{}) {
		s.Errorf("nonce 0 was used by %+v, %v; want a block, and no transaction of the account", by,
			err)
	}
}
