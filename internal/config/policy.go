package config

import (
	"encoding/hex"
	"regexp"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

// CallerPolicy limits the transactions of a caller; see docs/policies.md.
type CallerPolicy struct {
	Recipients  []common.Address // empty: all
	Selectors   [][4]byte        // empty: all
	ValuePerTx  *uint256.Int     // wei; nil: no limit
	ValuePerDay *uint256.Int     // wei; nil: no limit
	GasPerDay   uint64           // 0: no limit
	Rate        float64          // creates a second, on all nodes of a ledger; 0: no limit
	// value in wei above which another caller must approve; nil: none
	ApproveAbove *uint256.Int
	ApprovalTime time.Duration
	DryRun       bool
}

func policyFields() []field[CallerPolicy] {
	return []field[CallerPolicy]{
		values("recipients", account(),
			"Addresses that its transactions may be sent to. Contract creations are denied. "+
				"Empty: all addresses, and creations.",
			func(p *CallerPolicy) *[]common.Address { return &p.Recipients }),
		values("selectors", selector(),
			"Functions that its transactions may call. Transfers without call data are allowed; "+
				"contract creations are denied. Empty: all.",
			func(p *CallerPolicy) *[][4]byte { return &p.Selectors }),
		value("value_per_tx", optional(wei()), "",
			"The most that one transaction may send, in wei. Not set: no limit.",
			func(p *CallerPolicy) **uint256.Int { return &p.ValuePerTx }),
		value("approve_above", optional(wei()), "",
			"A transaction that sends more than this, in wei, is sent once another caller has "+
				"approved it. Set it after all nodes are upgraded. Not set: none needs an "+
				"approval.",
			func(p *CallerPolicy) **uint256.Int { return &p.ApproveAbove }),
		value("approval_timeout", span(time.Minute, 30*24*time.Hour), "24h",
			"How long such a transaction waits for the approval; then it fails "+
				"(APPROVAL_EXPIRED).",
			func(p *CallerPolicy) *time.Duration { return &p.ApprovalTime }),
		value("value_per_day", optional(wei()), "",
			"The most that the transactions accepted on one day (UTC) may send on one chain, in "+
				"wei. Not set: no limit.",
			func(p *CallerPolicy) **uint256.Int { return &p.ValuePerDay }),
		value("gas_per_day", whole[uint64](0, 1e18), "0",
			"The sum of the gas limits of the transactions accepted on one day (UTC) on one "+
				"chain. Transactions then need a gas_limit. 0: no limit.",
			func(p *CallerPolicy) *uint64 { return &p.GasPerDay }),
		value("creates_per_second", number(0, 1_000_000), "0",
			"Transactions accepted per second on one chain of a ledger, by all nodes together, "+
				"with bursts of one second. 0: no limit.",
			func(p *CallerPolicy) *float64 { return &p.Rate }),
		value("dry_run", yesNo(), "false",
			"Violations are logged and counted, and the transaction is accepted.",
			func(p *CallerPolicy) *bool { return &p.DryRun }),
	}
}

// callerApprove is the key of a caller's right to approve.
func callerApprove() field[Caller] {
	return value("approve", yesNo(), "false",
		"The caller may approve and deny transactions of other callers (policy.approve_above), "+
			"on the accounts and pools that it may use. An operator always may.",
		func(c *Caller) *bool { return &c.Approve })
}

// selector parses the first four bytes of call data.
func selector() kind[[4]byte] {
	form := regexp.MustCompile(`^0x[0-9a-fA-F]{8}$`)
	return kind[[4]byte]{`"0x" and 8 hex digits`, func(text string) ([4]byte, error) {
		if !form.MatchString(text) {
			return bad[[4]byte](`write "0x" and 8 hex digits, in quotes, such as "0xa9059cbb"`,
				"%q is not a selector", text)
		}
		raw, err := hex.DecodeString(text[2:])
		return [4]byte(raw), err
	}}
}

// wei parses an amount in wei.
func wei() kind[uint256.Int] {
	form := regexp.MustCompile(`^(0|[1-9][0-9]{0,77})$`)
	return kind[uint256.Int]{"wei, a whole number", func(text string) (uint256.Int, error) {
		amount, err := uint256.FromDecimal(text)
		if !form.MatchString(text) || err != nil {
			return bad[uint256.Int](
				`write a whole number of wei, such as 1000000000000000000 for 1 ether`,
				"%q is not an amount in wei", text)
		}
		return *amount, nil
	}}
}
