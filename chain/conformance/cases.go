package conformance

import (
	"context"
	"errors"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/fencepost/fencepost/txn"
	"github.com/holiman/uint256"
)

// blocks follows a chain upward and back down.
func (s *suite) blocks() {
	if got := s.Chain.ID(); got != s.ChainID {
		s.Errorf("chain id %d, want %d", got, s.ChainID)
	}
	first := s.head()
	s.until("three more blocks", func() bool { return s.head().Number >= first.Number+3 })
	at := s.head()
	for at.Number > first.Number {
		canonical, err := s.Chain.BlockByNumber(s.Context(), at.Number)
		if err != nil || canonical == nil || canonical.Hash != at.Hash {
			s.Fatalf("block %d by number: %+v, %v; want %s", at.Number, canonical, err, at.Hash)
		}
		parent, err := s.Chain.BlockByHash(s.Context(), at.Parent)
		if err != nil || parent == nil || parent.Number+1 != at.Number || parent.Hash != at.Parent {
			s.Fatalf("the parent of block %d: %+v, %v", at.Number, parent, err)
		}
		if parent.Time > at.Time {
			s.Errorf("block %d is older than its parent", at.Number)
		}
		at = *parent
	}
	if at.Hash != first.Hash {
		s.Errorf("the walk down ends at %s, not at %s", at.Hash, first.Hash)
	}
	if b, err := s.Chain.BlockByNumber(s.Context(), s.head().Number+1000); b != nil || err != nil {
		s.Errorf("a block above the head: %+v, %v; want neither", b, err)
	}
	if b, err := s.Chain.BlockByHash(s.Context(), common.HexToHash("0x404")); b != nil ||
		err != nil {
		s.Errorf("a block of an unknown hash: %+v, %v; want neither", b, err)
	}
}

func (s *suite) heads() {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	wake := s.Chain.Heads(ctx)
	if wake == nil {
		s.Log("skipped: no notifications of new heads")
		return
	}
	for range 2 {
		s.Mine()
		<-wake
	}
	cancel()
	for range wake { // ends when it is closed
	}
}

func (s *suite) included() {
	key := s.actor()
	signed := s.sign(s.transfer(key, 0))
	if r := s.receipt(signed.Hash); r != nil {
		s.Fatalf("a receipt before it was sent: %+v", r)
	}
	s.mustSend(signed, txn.Accepted)
	if s.Manual && s.receipt(signed.Hash) != nil {
		s.Error("a receipt before a block was made")
	}
	r := s.mined(signed.Hash)
	if !r.Success || r.GasUsed != transferGas || r.EffectiveGasPrice.IsZero() ||
		!r.More.Known || r.More.CumulativeGas < transferGas || r.More.Logs != 0 ||
		r.More.Contract != (txn.Address{}) {
		s.Errorf("receipt %+v", r)
	}
	// The bytes again, now in a block: any class but one that gives them up.
	s.mustSend(signed, txn.NonceTooLow, txn.AlreadyKnown)
}

func (s *suite) legacy() {
	o := s.transfer(s.actor(), 0)
	o.fees.Legacy = true
	signed := s.sign(o)
	s.mustSend(signed, txn.Accepted)
	s.mined(signed.Hash)
}

func (s *suite) created() {
	key := s.actor()
	signed := s.sign(
		order{key: key, data: deployCode(reverterRuntime), gas: 300_000, fees: s.fees()})
	s.mustSend(signed, txn.Accepted)
	if r := s.mined(signed.Hash); !r.Success ||
		r.More.Contract != crypto.CreateAddress(addressOf(key), 0) {
		s.Errorf("receipt %+v", r)
	}
	s.until("code at the new address",
		func() bool { return s.view(crypto.CreateAddress(addressOf(key), 0), 0).HasCode })
	if s.view(addressOf(key), 0).HasCode {
		s.Error("an account of a key has code")
	}
}

func (s *suite) reverted() {
	key := s.actor()
	to, nonce := s.reverter(key, 0)
	signed := s.sign(order{key: key, nonce: nonce, to: &to, gas: 100_000, fees: s.fees()})
	s.mustSend(signed, txn.Accepted)
	if r := s.mined(signed.Hash); r.Success {
		s.Errorf("receipt %+v of a call that reverts", r)
	}
}

func (s *suite) receipts() {
	key := s.actor()
	var hashes []txn.Hash
	for nonce := range uint64(3) {
		signed := s.sign(s.transfer(key, nonce))
		s.mustSend(signed, txn.Accepted)
		hashes = append(hashes, signed.Hash)
	}
	s.mined(hashes[2])
	for i := range 150 {
		hashes = append(hashes, common.BytesToHash(crypto.Keccak256(hashes[0][:], []byte{byte(i)})))
	}
	hashes = append(hashes, hashes[1])
	for i, a := range s.Chain.Receipts(s.Context(), hashes) {
		if isOurs := i < 3 || i == len(hashes)-1; a.Err != nil || a.Hash != hashes[i] ||
			(a.Receipt != nil) != isOurs {
			s.Fatalf("response %d: %+v for %s", i, a, hashes[i])
		}
	}
	if got := s.Chain.Receipts(s.Context(), nil); len(got) != 0 {
		s.Errorf("%d responses without a query", len(got))
	}
}

// known uses a nonce above a gap if the chain queues it: no block can then take the bytes
// meanwhile.
func (s *suite) known() {
	nonce := uint64(1)
	if s.Quirks.RefusesGaps {
		nonce = 0
	}
	signed := s.sign(s.transfer(s.actor(), nonce))
	s.mustSend(signed, txn.Accepted)
	if s.Quirks.RefusesGaps && !s.Manual {
		s.mustSend(signed, txn.AlreadyKnown, txn.NonceTooLow)
		return
	}
	s.mustSend(signed, txn.AlreadyKnown)
	s.mustSend(signed, txn.AlreadyKnown)
}

func (s *suite) usedNonce() {
	key := s.actor()
	first := s.sign(s.transfer(key, 0))
	s.mustSend(first, txn.Accepted)
	s.mined(first.Hash)
	other := s.transfer(key, 0)
	other.value = 2
	s.refused(s.sign(other), txn.NonceTooLow)
}

func (s *suite) gap() {
	key := s.actor()
	later := s.sign(s.transfer(key, 1))
	if s.Quirks.RefusesGaps {
		s.mustSend(later, txn.NonceGap)
		return
	}
	s.mustSend(later, txn.Accepted) // queued: the chain cannot tell whether it can run
	s.Mine()
	s.Mine()
	if a := s.view(addressOf(key), 0); a.Latest != 0 || a.Pending != 0 {
		s.Errorf("nonces %d and pending %d with a gap at 0", a.Latest, a.Pending)
	}
	if r := s.receipt(later.Hash); r != nil {
		s.Fatalf("included above a gap: %+v", r)
	}
	filler := s.sign(s.transfer(key, 0))
	s.mustSend(filler, txn.Accepted)
	s.mined(filler.Hash)
	s.mined(later.Hash)
	s.until("both nonces used", func() bool { return s.view(addressOf(key), 0).Latest == 2 })
}

// replacement happens above a gap, for the same reason as known.
func (s *suite) replacement() {
	if s.Quirks.RefusesGaps && !s.Manual {
		return // nothing would stay in the pool long enough
	}
	key, nonce := s.actor(), uint64(1)
	if s.Quirks.RefusesGaps {
		nonce = 0
	}
	base := s.transfer(key, nonce)
	base.fees.Tip.SetUint64(1_000_000_000)
	base.fees.Cap.Add(&base.fees.Cap,
		uint256.NewInt(2_000_000_000)) // so that the tip can rise alone
	try := func(capPercent, tipPercent uint64, want txn.Class) txn.Signed {
		s.Helper()
		o := base
		o.fees = raised(base.fees, capPercent, tipPercent)
		signed := s.sign(o)
		if got := s.send(signed, false); got.Class != want {
			s.Fatalf("a replacement with %d%% more in the cap and %d%% in the tip: %+v, want %s",
				capPercent, tipPercent, got, want)
		}
		return signed
	}
	original := try(0, 0, txn.Accepted)
	if s.Quirks.AnyBump {
		o := base
		o.fees.Cap.AddUint64(&o.fees.Cap, 1)
		o.fees.Tip.AddUint64(&o.fees.Tip, 1)
		s.mustSend(s.sign(o), txn.Accepted)
	} else {
		try(9, 9, txn.ReplacementUnderpriced)
	}
	if !s.Quirks.AnyBump && !base.fees.Legacy {
		try(50, 0, txn.ReplacementUnderpriced) // both must rise
		try(0, 50, txn.ReplacementUnderpriced)
	}
	better := try(10, 10, txn.Accepted)
	if nonce > 0 {
		s.mustSend(s.sign(s.transfer(key, 0)), txn.Accepted)
	}
	s.mined(better.Hash)
	if r := s.receipt(original.Hash); r != nil {
		s.Errorf("both are included: %+v", r)
	}
	s.refused(original, txn.NonceTooLow)
}

func (s *suite) noFunds() {
	key := s.stranger()
	s.mustSend(s.sign(s.transfer(key, 0)), txn.InsufficientFunds)
	to := txn.Address{0xfe}
	if q, o := s.Chain.Quote(
		s.Context(),
		txn.Draft{From: addressOf(key), Payload: txn.Payload{To: &to}},
	); o.Class != txn.InsufficientFunds {
		s.Errorf("quote %+v, %+v for an account without funds", q, o)
	}
}

func (s *suite) invalid() {
	key := s.actor()
	garbage := []byte{0x02, 0xc0, 0xff, 0xee}
	s.mustSend(txn.Signed{Hash: crypto.Keccak256Hash(garbage), Raw: garbage}, txn.Invalid)
	for name, change := range map[string]func(*order){
		"gas below the minimum":     func(o *order) { o.gas = transferGas - 1 },
		"gas above the block limit": func(o *order) { o.gas = 1 << 40 },
		"a tip above the cap":       func(o *order) { o.fees.Tip.Add(&o.fees.Cap, &o.fees.Cap) },
	} {
		o := s.transfer(key, 0)
		if change(&o); o.fees.Legacy {
			continue // it has no tip
		}
		if got := s.send(s.sign(o), false); got.Class != txn.Invalid {
			s.Errorf("%s: %+v, want INVALID", name, got)
		}
	}
}

func (s *suite) wrongChain() {
	o := s.transfer(s.actor(), 0)
	o.chain = s.ChainID + 1
	s.mustSend(s.sign(o), txn.WrongChain)
	o.fees.Legacy = true
	if s.Quirks.AnyLegacyChain {
		s.mustSend(s.sign(o), txn.Accepted)
	} else {
		s.mustSend(s.sign(o), txn.WrongChain, txn.Invalid)
	}
}

func (s *suite) account() {
	key := s.actor()
	address := addressOf(key)
	signed := s.sign(s.transfer(key, 0))
	before := s.view(address, 0)
	if before.Latest != 0 || before.Pending != 0 || before.Settled != 0 || before.HasCode ||
		before.BalanceAt.IsZero() {
		s.Fatalf("a new account: %+v", before)
	}
	s.mustSend(signed, txn.Accepted)
	if s.Manual {
		s.soon("the pending nonce",
			// a node's pool reorders after it responded
			func() bool { return s.view(address, 0).Pending == 1 })
		if a := s.view(address, 0); a.Latest != 0 {
			s.Errorf("with one in the pool: %+v", a)
		}
	}
	included := s.mined(signed.Hash).BlockNumber
	s.until("the state of the block", func() bool { return s.view(address, 0).Latest == 1 })
	const depth = 3
	s.until("the settled nonce", func() bool {
		a := s.view(address, depth)
		if settled := a.Head >= included+depth; settled != (a.Settled == 1) {
			s.Fatalf("head %d, included in %d, settled nonce %d at depth %d", a.Head, included,
				a.Settled, depth)
		}
		if b, err := s.Chain.BlockByNumber(s.Context(), a.Head); err != nil || b == nil ||
			b.Hash != a.HeadHash {
			s.Fatalf("the view's head %d %s: %+v, %v", a.Head, a.HeadHash, b, err)
		}
		return a.Settled == 1
	})
	after := s.view(address, 1_000_000)
	if after.Settled != 0 || !after.BalanceAt.Lt(&before.BalanceAt) {
		s.Errorf("settled below the genesis, and paid for gas: %+v, before %+v", after, before)
	}
}

func (s *suite) quote() {
	key := s.actor()
	from, to := addressOf(key), txn.Address{0xfe}
	q, o := s.Chain.Quote(s.Context(), txn.Draft{From: from, Payload: txn.Payload{To: &to}})
	if o.Class != txn.Accepted || q.GasLimit < transferGas || q.Fees.Tip.Gt(&q.Fees.Cap) {
		s.Fatalf("quote %+v, %+v", q, o)
	}
	if fee := s.head().BaseFee; fee != nil && (q.Fees.Legacy || q.Fees.Cap.Lt(fee)) {
		s.Errorf("quote %+v below the base fee %s", q, fee.Dec())
	}
	signed := s.sign(order{key: key, to: &to, gas: q.GasLimit, fees: q.Fees})
	s.mustSend(signed, txn.Accepted)
	s.mined(signed.Hash)
	if q, o := s.Chain.Quote(
		s.Context(),
		txn.Draft{From: from, Payload: txn.Payload{To: &to, GasLimit: 77_777}},
	); o.Class != txn.Accepted ||
		q.GasLimit != 77_777 {
		s.Errorf("quote %+v, %+v for a payload with its own gas limit", q, o)
	}
	if q, o := s.Chain.Quote(
		s.Context(),
		txn.Draft{From: from, Payload: txn.Payload{To: &to, GasLimit: 20_999}},
	); o.Class != txn.Invalid {
		s.Errorf("quote %+v, %+v for a gas limit below the minimum", q, o)
	}
	s.until("the state of the block", func() bool { return s.view(from, 0).Latest == 1 })
	contract, _ := s.reverter(key, 1)
	if q, o := s.Chain.Quote(
		s.Context(),
		txn.Draft{From: from, Payload: txn.Payload{To: &contract}},
	); o.Class != txn.ExecutionReverted ||
		!strings.Contains(o.Detail, "nope") {
		s.Errorf("quote %+v, %+v for a call that reverts", q, o)
	}
}

func (s *suite) consumer() {
	key := s.actor()
	address := addressOf(key)
	user := func(nonce txn.Nonce) *txn.Consumer {
		s.Helper()
		by, err := s.Chain.Consumer(s.Context(), address, nonce)
		if err != nil {
			s.Fatal(err)
		}
		return by
	}
	if by := user(0); by != nil {
		s.Fatalf("%+v used a nonce of a new account", by)
	}
	var sent []txn.Signed
	var in []*txn.Receipt
	for nonce := range uint64(3) {
		signed := s.sign(s.transfer(key, nonce))
		s.mustSend(signed, txn.Accepted)
		sent, in = append(sent, signed), append(in, s.mined(signed.Hash))
		s.Mine() // so that the uses are some blocks apart
	}
	s.until("the state of the blocks", func() bool { return s.view(address, 0).Latest == 3 })
	for i, r := range in {
		by := user(txn.Nonce(i))
		if by == nil || by.TxHash != sent[i].Hash || by.Block != r.BlockNumber ||
			by.BlockHash != r.BlockHash {
			s.Errorf("nonce %d was used by %+v, want %s in block %d %s", i, by, sent[i].Hash,
				r.BlockNumber, r.BlockHash)
		}
	}
	for _, nonce := range []txn.Nonce{3, 4, 1 << 40} {
		if by := user(nonce); by != nil {
			s.Errorf("%+v used nonce %d, which is free", by, nonce)
		}
	}
}

func (s *suite) reorgKeeps() {
	if s.Reorg == nil {
		s.Log("skipped: no reorgs on this chain")
		return
	}
	signed := s.sign(s.transfer(s.actor(), 0))
	s.mustSend(signed, txn.Accepted)
	before := s.mined(signed.Hash)
	depth := int(s.head().Number-before.BlockNumber) + 1
	s.Reorg(depth, true)
	s.until("the receipt in another block", func() bool {
		r := s.receipt(signed.Hash)
		return r != nil && r.BlockHash != before.BlockHash
	})
	s.mined(signed.Hash)
	if b, err := s.Chain.BlockByNumber(s.Context(), before.BlockNumber); err != nil || b == nil ||
		b.Hash == before.BlockHash {
		s.Errorf("the removed block is still canonical: %+v, %v", b, err)
	}
}

func (s *suite) reorgDrops() {
	if s.Reorg == nil {
		s.Log("skipped: no reorgs on this chain")
		return
	}
	key := s.actor()
	signed := s.sign(s.transfer(key, 0))
	s.mustSend(signed, txn.Accepted)
	before := s.mined(signed.Hash)
	s.Reorg(int(s.head().Number-before.BlockNumber)+1, false)
	s.until("the nonce free again", func() bool { return s.view(addressOf(key), 0).Latest == 0 })
	if r := s.receipt(signed.Hash); r != nil {
		s.Fatalf("a receipt after the reorg: %+v", r)
	}
	s.mustSend(signed, txn.Accepted)
	if r := s.mined(signed.Hash); r.BlockHash == before.BlockHash {
		s.Error("included in the removed block")
	}
}

func (s *suite) cancelled() {
	signed := s.sign(s.transfer(s.actor(), 0))
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.Chain.Head(ctx); !errors.Is(err, txn.ErrUnavailable) {
		s.Errorf("head: %v, want unavailable", err)
	}
	if a := s.Chain.Receipts(ctx, []txn.Hash{signed.Hash}); len(a) != 1 ||
		!errors.Is(a[0].Err, txn.ErrUnavailable) {
		s.Errorf("receipts: %+v, want unavailable", a)
	}
	if _, err := s.Chain.Account(ctx, txn.Address{}, 0); !errors.Is(err, txn.ErrUnavailable) {
		s.Errorf("account: %v, want unavailable", err)
	}
	if _, err := s.Chain.Consumer(ctx, addressOf(s.Key), 0); !errors.Is(err, txn.ErrUnavailable) {
		s.Errorf("consumer: %v, want unavailable", err)
	}
	if d, err := s.Chain.Pooled(ctx, addressOf(s.Key), 0, []txn.Hash{signed.Hash}); !errors.Is(err,
		txn.ErrUnavailable) ||
		d != txn.Undiagnosed {
		s.Errorf("pool: %q, %v, want unavailable", d, err)
	}
	if b, err := s.Chain.Tagged(ctx, "safe"); !errors.Is(err, txn.ErrUnavailable) {
		s.Errorf("safe block: %+v, %v, want unavailable", b, err)
	}
	if f, o := s.Chain.Fees(ctx, txn.FeeRequest{}); o.Class != txn.Unavailable {
		s.Errorf("fees: %+v, %+v", f, o)
	}
	if gas, o := s.Chain.Gas(ctx, txn.Draft{From: addressOf(s.Key)}); o.Class != txn.Unavailable {
		s.Errorf("gas: %d, %+v", gas, o)
	}
	if o := s.Chain.Send(ctx, signed); o.Class != txn.Unavailable && o.Class != txn.Ambiguous {
		s.Errorf("send: %+v", o)
	}
	if _, o := s.Chain.Quote(ctx, txn.Draft{From: addressOf(s.Key)}); o.Class != txn.Unavailable {
		s.Errorf("quote: %+v", o)
	}
	s.head() // it must leave no effect
}
