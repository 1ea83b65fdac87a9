package config

import (
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

func chainFields() []field[Chain] {
	return []field[Chain]{
		value("name", label(), "", "The name that submitters, errors and logs use.",
			func(c *Chain) *string { return &c.Name }).must().inFile(),
		value("chain_id", whole[uint64](1, 1<<63-1), "",
			"The EIP-155 chain id. Every endpoint must report it.",
			func(c *Chain) *uint64 { return &c.ChainID }).must(),
		chainProfile(),
		value("genesis", blockHash(), "",
			"The hash of block 0, which every endpoint must report. If it is not set, the "+
				"first endpoint's genesis hash is used. An endpoint that does not serve block 0 "+
				"can be used only if it is set; such an endpoint is verified by its chain id.",
			func(c *Chain) *common.Hash { return &c.Genesis }),
		values("rpc", endpoint(),
			"JSON-RPC endpoints in order of preference. The URLs often contain a provider's "+
				"key, so they are never printed.",
			func(c *Chain) *[]Secret { return &c.RPC }).must(),
		value("rpc_timeout", span(100*time.Millisecond, 10*time.Minute), "10s",
			"Timeout of one call to one endpoint.",
			func(c *Chain) *time.Duration { return &c.RPCTimeout }),
		value("rpc_max_in_flight", whole(1, 100_000), "100", "Concurrent calls per endpoint.",
			func(c *Chain) *int { return &c.RPCMaxInFlight }),
		value("rpc_batch_limit", whole(1, 10_000), "100",
			"Calls per JSON-RPC batch. 1 sends no batches. A node whose endpoint refuses larger "+
				"batches sends smaller ones, and logs it.",
			func(c *Chain) *int { return &c.RPCBatchLimit }),
		value("poll_interval", span(10*time.Millisecond, 10*time.Minute), "1s",
			"Time between two polls of the chain's head; about half of the block time is a "+
				"good value.",
			func(c *Chain) *time.Duration { return &c.PollInterval }),
		value("lag_grace", span(time.Second, time.Hour), "30s",
			"How long an endpoint behind the highest block seen is considered to lag. After "+
				"that time the chain is considered to have lost blocks.",
			func(c *Chain) *time.Duration { return &c.LagGrace }),
		value("confirmations", whole[uint64](1, 2000), "20",
			"Canonical blocks above the receipt's block that make a transaction final.",
			func(c *Chain) *uint64 { return &c.Confirmations }),
		value("release_depth", orWord("final", whole[uint64](1, 2000)), "1",
			"Depth of the receipt's block at which its nonce no longer counts as in flight: a "+
				"strict submitter may then take its next one. "+
				"1: as soon as the receipt is in a canonical block, regardless of "+
				"finality.tag; 2: with one block above it, and so on. final, or a value equal "+
				"to confirmations if that is above 1: once the transaction is final, "+
				"finality.tag included.",
			func(c *Chain) *uint64 { return &c.ReleaseDepth }),
		values("allow_code", account(),
			"Contracts that an account may delegate to (EIP-7702). Such an account has at most "+
				"one nonce in flight, as pools require, and is protected if the code uses its "+
				"nonce. Accounts with other code send nothing (ACCOUNT_HAS_CODE). Empty: all "+
				"accounts with code.",
			func(c *Chain) *[]common.Address { return &c.AllowCode }),
		section(
			"protect",
			"When a submitter is put under PROTECT: no nonce is taken until an operator decides.",
			func(c *Chain) *Protect { return &c.Protect },
			value("lag_grace", span(time.Second, time.Hour), "60s",
				"How long the chain may lack transactions that the ledger has in blocks before "+
					"this counts as lost blocks rather than endpoint lag.",
				func(p *Protect) *time.Duration { return &p.LagGrace }),
		),
		section(
			"finality",
			"When the chain is considered unchangeable.",
			func(c *Chain) *Finality { return &c.Finality },
			value("tag", oneOf("none", "safe", "finalized"), "none",
				"The block that the chain itself calls safe or finalized. Nothing above it is "+
					"final, regardless of confirmations. none: confirmations alone decide. At "+
					"startup the node rejects a chain whose endpoints do not support the tag.",
				func(f *Finality) *string { return &f.Tag }),
			value("audit_depth", orZero(whole[uint64](1, MaxAuditDepth)), "0",
				"Depth, in blocks, below which reorgs are considered impossible. At that depth "+
					"of another use of a nonce, an operator can fail or requeue the transaction "+
					"that lost it, and skip nonces. The maximum is the number of a chain's blocks "+
					"that a node keeps in memory. 0: four times confirmations, up to that maximum.",
				func(f *Finality) *uint64 { return &f.AuditDepth }),
			value("tell_blocks", yesNo(), "false",
				"Emits an event for each canonical block above the receipt's block, with its hash.",
				func(f *Finality) *bool { return &f.TellBlocks }),
		),
		section(
			"prepare",
			"How a transaction is prepared before it takes a nonce.",
			func(c *Chain) *Prepare { return &c.Prepare },
			value("max_age", orZero(span(time.Second, 30*24*time.Hour)), "0",
				"How long the head of a queue may wait for funds, fees, the chain or the "+
					"signer. After that time the transaction fails without a nonce, and the next "+
					"one proceeds. 0: no limit.",
				func(p *Prepare) *time.Duration { return &p.MaxAge }),
			value("simulate", oneOf("always", "without-gas-limit"), "always",
				"Which transactions are simulated on the latest state before they take a "+
					"nonce. One that would revert fails without a nonce. without-gas-limit: "+
					"simulates only those whose gas must be estimated. A caller's own gas "+
					"limit is then trusted as long as it can cover the data, and a transaction "+
					"that reverts does so on chain, for a fee. This saves most RPC calls: "+
					"prices are read once per block, and the balance of a well-funded account "+
					"only occasionally.",
				func(p *Prepare) *string { return &p.Simulate }),
		),
		section(
			"resubmit",
			"Rebroadcasting a transaction while it is not included.",
			func(c *Chain) *Resubmit { return &c.Resubmit },
			value("interval", span(100*time.Millisecond, 24*time.Hour), "60s",
				"Time between two broadcasts.",
				func(r *Resubmit) *time.Duration { return &r.Interval }),
			value("max_attempts", whole(1, 1_000_000), "20",
				"Broadcasts after which a transaction becomes STUCK. It is still tracked and "+
					"rebroadcast.",
				func(r *Resubmit) *int { return &r.MaxAttempts }),
			value("max_age", orZero(span(time.Second, 365*24*time.Hour)), "0",
				"Age of the first attempt after which a transaction that is in no block "+
					"becomes STUCK, even if no node could be reached. It is still tracked and "+
					"rebroadcast. 0: no limit.",
				func(r *Resubmit) *time.Duration { return &r.MaxAge }),
		),
		section(
			"gas_bump",
			"Replacing a transaction that is not included with an attempt at the same nonce "+
				"and higher fees.",
			func(c *Chain) *GasBump { return &c.GasBump },
			gasBumpFields()...),
		section(
			"mempool",
			"Inspection of the nodes' pools.",
			func(c *Chain) *Mempool { return &c.Mempool },
			value("diagnose", yesNo(), "false",
				"Looks up a transaction in a node's pool before each rebroadcast. The result "+
					"is shown as a hint, because pools differ.",
				func(m *Mempool) *bool { return &m.Diagnose }),
		),
		section(
			"fees",
			"The fees of transactions, per unit of gas.",
			func(c *Chain) *Fees { return &c.Fees },
			feeFields()...),
		section(
			"gas",
			"The gas limits of transactions.",
			func(c *Chain) *Gas { return &c.Gas },
			value("margin", number(1, 10), "1.2",
				"Factor applied to gas estimates. A gas limit from the caller is used unchanged. "+
					"A plain transfer that runs no code gets exactly 21000.",
				func(g *Gas) *float64 { return &g.Margin }),
			value("max_limit", whole(0, 1<<40), "16777216",
				"The most gas of one transaction; the default is the limit of EIP-7825. A "+
					"transaction above it fails before it takes a nonce, with the reason "+
					"GAS_LIMIT_ABOVE_MAXIMUM. 0: only the block's limit applies.",
				func(g *Gas) *int { return &g.MaxLimit }),
		),
		files("abi_files",
			"JSON ABIs, or compiler artifacts, of the contracts that are called. A custom "+
				"error defined in them is reported by name when a call would revert.",
			func(c *Chain) *[]string { return &c.ABIFiles }),
		chainBalance(),
	}
}

func gasBumpFields() []field[GasBump] {
	return []field[GasBump]{
		value("enabled", yesNo(), "false",
			"Enables automatic fee bumping. If false, callers and operators can still request "+
				"a bump, and cancel transactions are still bumped, because one that is not may "+
				"never be included. A transaction whose fees every node refused is replaced in "+
				"any case, up to fees.max_fee_cap_gwei.",
			func(g *GasBump) *bool { return &g.Enabled }),
		value("multiplier", number(1.1, 10), "1.125",
			"Minimum factor applied to both fees of the last attempt that a node accepted. "+
				"Pools of go-ethereum require at least 1.1.",
			func(g *GasBump) *float64 { return &g.Multiplier }),
		value("min_interval", span(time.Second, 24*time.Hour), "60s",
			"The least time between two attempts of a transaction, cancel transactions included.",
			func(g *GasBump) *time.Duration { return &g.MinInterval }),
		value("max_attempts", whole(1, 1000), "10",
			"The most automatic replacements of a transaction, and the most replacements of "+
				"its first cancel transaction.",
			func(g *GasBump) *int { return &g.MaxAttempts }),
		value("budget", whole(1, 1024), "4",
			"Transactions of a pipelined account that may be bumped in a resubmit.interval, "+
				"lowest nonces first. Blocks take nonces in order, so the others would wait "+
				"anyway.",
			func(g *GasBump) *int { return &g.Budget }),
		value("max_fee_cap_gwei", gwei("0"), "500",
			"The highest fee cap of any attempt but the first, tip included. It replaces "+
				"fees.max_fee_cap_gwei; the caps of the account and of the transaction apply too. "+
				"A transaction that needs more becomes STUCK with the reason FEE_CAP_REACHED and "+
				"is still rebroadcast. 0: no limit.",
			func(g *GasBump) *uint256.Int { return &g.MaxFeeCap }),
	}
}

func feeFields() []field[Fees] {
	return []field[Fees]{
		value("history_blocks", whole(1, 1024), "10",
			"Number of newest blocks whose tips are sampled.",
			func(f *Fees) *int { return &f.HistoryBlocks }),
		value("percentile", number(1, 100), "50",
			"Percentile of the sampled tips that is offered at standard speed.",
			func(f *Fees) *float64 { return &f.Percentile }),
		value("slow_percentile", orZero(number(1, 100)), "0",
			"Percentile at slow speed. 0: 25, or the standard percentile if that is lower.",
			func(f *Fees) *float64 { return &f.SlowPercentile }),
		value("fast_percentile", orZero(number(1, 100)), "0",
			"Percentile at fast speed. 0: 75, or the standard percentile if that is higher. On "+
				"a chain without base fees, the fast speed offers 25 % above the node's gas "+
				"price, and the other speeds offer that price.",
			func(f *Fees) *float64 { return &f.FastPercentile }),
		value("min_tip_gwei", gwei("0.000000001"), "0.001",
			"The lowest tip that is offered. If the chain's nodes require more, the node "+
				"learns a higher tip from their refusals, up to max_fee_cap_gwei, and the ledger "+
				"remembers it.",
			func(f *Fees) *uint256.Int { return &f.MinTip }),
		value("min_price_gwei", gwei("0"), "0",
			"The lowest fee cap or gas price that is offered, for chains with a minimum price.",
			func(f *Fees) *uint256.Int { return &f.MinPrice }),
		value("max_fee_cap_gwei", gwei("0"), "500",
			"The highest fee cap that is offered, tip included. 0: no limit.",
			func(f *Fees) *uint256.Int { return &f.MaxFeeCap }),
		value("fixed_price_gwei", optional(gwei("0")), "",
			"Sends legacy transactions at this price, regardless of the chain's fees; for "+
				"private chains.",
			func(f *Fees) **uint256.Int { return &f.FixedPrice }),
		value("l1_fee", oneOf("none", "op-stack"), "none",
			"Source of the fees that a rollup charges in addition to gas. op-stack: the "+
				"GasPriceOracle contract (since Fjord), once per block, as upper bounds of the L1 "+
				"data fee and the operator fee. They count towards the funds that a transaction "+
				"needs.",
			func(f *Fees) *string { return &f.L1Fee }),
	}
}
