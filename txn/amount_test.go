package txn

import (
	"strings"
	"testing"

	"github.com/holiman/uint256"
)

func TestAmount_Units(t *testing.T) {
	t.Parallel()
	for wei, want := range map[uint64][2]string{
		0: {"0", "0"}, 1: {"0.000000001", "0.000000000000000001"}, 1e9: {"1", "0.000000001"},
		100e9: {"100", "0.0000001"}, 1_500_000_007: {"1.500000007", "0.000000001500000007"},
		10e18: {"10000000000", "10"},
	} {
		amount := *uint256.NewInt(wei)
		if got := [2]string{InGwei(amount), InEther(amount)}; got != want {
			t.Errorf("%d wei are %q, want %q", wei, got, want)
		}
	}
}

func TestFeeCap_NamesEffectiveCap(t *testing.T) {
	t.Parallel()
	gwei := func(n uint64) (w Wei) { return *w.SetUint64(n * 1e9) }
	for name, c := range map[string]struct {
		own, account, bump uint64 // gwei
		chains             bool
		kind               AttemptKind
		draft, replacement string
	}{
		"the chain's": {chains: true, own: 5, account: 6, bump: 4, kind: Bump,
			draft:       "above the chain's cap (fees.max_fee_cap_gwei in",
			replacement: "of 4 gwei (gas_bump.max_fee_cap_gwei in"},
		"the account's": {account: 7, bump: 9, kind: Bump, draft: "above the account's cap " +
			"(max_fee of the submitter, 7 gwei); waiting until they fall or the cap is raised: " +
			"the base fee", replacement: "of 7 gwei (max_fee of the submitter)"},
		"the lower of two": {own: 8, account: 7, kind: Bump, draft: "the account's cap",
			replacement: "of 7 gwei (max_fee of the submitter)"},
		"the transaction's": {own: 5, account: 7, bump: 9, kind: Bump,
			draft: "above the transaction's own cap (its max_fee, 5 gwei); waiting until they " +
				"fall or it is cancelled (this cap cannot be raised): the base fee",
			replacement: "of 5 gwei (the transaction's own max_fee)"},
		"of a cancel": {own: 5, account: 7, kind: Cancel, draft: "own cap",
			replacement: "of 7 gwei (max_fee of the submitter)"},
	} {
		v := View{
			Submitter: Submitter{MaxFee: gwei(c.account)},
			Policy:    Policy{BumpMaxFee: gwei(c.bump)},
		}
		tx := Tx{Terms: Terms{MaxFee: gwei(c.own)}, Attempts: []Attempt{{No: 1, Kind: Original}}}
		o := Outcome{Class: FeeCapBelowBaseFee, Detail: "the base fee", ChainCap: c.chains}
		prepared := Prepared(&v, Prepare{Tx: &tx}, &Preparation{Outcome: o})
		if got := prepared.Writes[0].Next.LastError; !strings.Contains(got, c.draft) {
			t.Errorf("%s: %s", name, got)
		}
		s := replace(&v, &tx, c.kind, 0)
		_, capped := Replacement{
			Outcome:    Outcome{Class: Accepted},
			AboveLimit: true,
		}.failure(&v, &Replace{Tx: s.Tx, Kind: Bump, Limit: s.Limit})
		_, refused := Replacement{Outcome: o}.failure(&v, s)
		if !strings.Contains(refused, c.replacement) ||
			c.kind == Bump && !strings.Contains(capped, c.replacement) {
			t.Errorf("%s: %s, %s", name, refused, capped)
		}
	}
}

func TestInsufficientFunds_ReportsShortfall(t *testing.T) {
	t.Parallel()
	ether := func(n uint64) *Wei { return uint256.NewInt(n * 1e17) }
	said := func(o Outcome) string {
		return Prepared(&View{}, Prepare{Tx: &Tx{}},
			&Preparation{Outcome: o}).Writes[0].Next.LastError
	}
	if got := said(Outcome{Class: InsufficientFunds, Have: ether(2), Want: ether(15),
		Short: ether(13)}); got !=
		"insufficient funds for this transaction: it has 0.2 ether, may need 1.5, and lacks 1.3 "+
			"ether; it proceeds once the account is funded" {
		t.Error(got)
	}
	if got := said(Outcome{Class: InsufficientFunds, Have: ether(2), Want: ether(15),
		Short: ether(13), AtLeast: true}); got !=
		"insufficient funds for this transaction: it has 0.2 ether, may need at least 1.5, and "+
			"lacks at least 1.3 ether; it proceeds once the account is funded" {
		t.Errorf("got %q", got)
	}
	if got := said(Outcome{Class: InsufficientFunds}); got != "insufficient funds for this "+
		"transaction; it proceeds once the account is funded" {
		t.Error(got)
	}
}
