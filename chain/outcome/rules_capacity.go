package outcome

import "github.com/fencepost/fencepost/txn"

// poolCount matches the kinds of transaction that a pool limit counts.
const poolCount = `(pending|queued|in flight|pooled|future)`

// capacityRules match texts about money and pool capacity: the bytes are valid; time or a higher
// fee helps.
var capacityRules = []rule{
	newRule(
		txn.FeeCapBelowBaseFee,
		"the fee cap is below the current base fee: waiting or a higher cap helps",
		`\b(fee|price|cap|gas ?fee ?cap)\b.*(\bless\b|\blower\b|\bbelow\b|\bunder\b|`+
			`\bsmaller\b|\btoo low\b|<|\bmeet\b|\bcover\b|\bgreater than or equal\b|`+
			`\bat least\b).*\bbase ?fee\b`,
		`\b(cannot|cant|does not|doesnt|unable to|not enough to) (pay|cover|`+
			`meet) (the )?(\S+ )?base ?fee\b`,
		`\bbase ?fee\b.*\b(greater|higher|exceeds|above|more|larger) (than )?.*\b(fee|price|cap)\b`,
		`\bblob gas price is (greater|higher)\b`,
		`\bper blob gas (is )?(less|lower|below|too low)\b`,
	).
		except(`\beffective priority\b`, `\binsufficient funds\b`),
	newRule(txn.Unavailable,
		"the gateway's own account lacks funds, not the sender; before INSUFFICIENT_FUNDS",
		`\binsufficient payer balance\b`, `\bprecheck with status (busy|platform)`),
	newRule(txn.RateLimited,
		"the provider's plan is exhausted; before INSUFFICIENT_FUNDS, which shares its words",
		`\bcredits?\b (\S+ ){0,4}(insufficient|not enough|too low|used up|exhausted|depleted)\b`,
		`\b(insufficient|not enough|low on|run out of|out of) (\S+ ){0,4}credits?\b`,
		`\binsufficient balance to use (this |the |our )?(api|service|endpoint)\b`),
	newRule(txn.InsufficientFunds, "the account cannot afford the transaction until it is funded",
		`\binsufficient `+fewWords+`(funds?|balance|ether|coins?|tokens?|energy)\b`,
		`\bnot enough `+fewWords+`(funds?|balance|ether|money|coins?)\b`,
		`\benough (funds?|balance|ether|money)\b`, `\bexceeds? `+fewWords+`balance\b`,
		`\bbalance `+fewWords+`(less than|lower than|too low|below|insufficient|not enough|`+
			`not sufficient|cannot cover|is low)\b`,
		`\bupfront cost\b`, `\b(inability|unable|cannot|cant|failed|not able) (to )?(pay|afford)\b`,
		`\black(s|ing)? (of )?funds?\b`, `\boverdraft\b`, `\boverdraws\b`, `\bunderfunded\b`,
		`\bno funds\b`, `\bsufficient (funds|balance)\b`, `\bout of (funds|balance)\b`,
		`\bbalance intrinsic\b`, `::payment\b`, `\(payment\)`,
		`\bcost `+fewWords+`(exceeds|greater than|higher than) `+fewWords+`balance\b`).
		except(`\bintrinsic (gas|cost)\b`),

	newRule(
		txn.PoolFull,
		"a pool's limit for one account; before RATE_LIMITED, which shares its words",
		`\b(account|sender|delegator|address) quota (is )?(exceeded|reached|exhausted)\b`,
		`\b(account|sender) exceeds (\S+ ){0,2}quota\b`,
		`\balready (have|has|had) (\S+ ){0,2}(max|maximum|too many)\b`,
		`\bmax(imum)? (amount|number|count) of (`+poolCount+` )?`+txWord+`\b`,
		`\b`+txWord+` limit in (the |its |our )?(tx ?pool|mempool|pool)\b`,
		`\bidentified as (an? )?spam`,
		`\bslots? (limit )?(exceeded|full|exhausted)\b`,
		`\blimit reached in (the )?(tx ?pool|mempool|pool)\b`,
	),
	newRule(
		txn.RateLimited,
		"a provider's request limit: the bytes were not processed; before INVALID, because "+
			"limits use words of size and quota",
		`\brate ?limit`,
		`\brate (has been |was |is )?exceeded\b`,
		`\btoo many (\S+ ){0,3}(requests?|calls|connections|queries)\b`,
		`\bthrottl`,
		`\bquota\b`,
		`\bcompute units?\b`,
		`(^|status |status code |code |code: |http |error |error: )429\b`,
		`\b429 too\b`,
		`\bpayment required\b`,
		`\bslow down\b`,
		`\brps\b`,
		`\bcups\b`,
		`\b(error )?code: 1015\b`,
		`\bover capacity\b`,
		`\bused up (your|all|the)\b`,
		`\b(hit|reached|exceeded) your (\S+ ){0,3}limits?\b`,
		`\busage cap\b`,
		`\bfree (tier|plan) (\S+ ){0,2}limits?\b`,
		`\busage limit\b`,
		`\blimit of (\S+ ){0,3}(requests?|calls)\b`,
		`\b(daily|monthly|hourly|concurrent|project|plan|api|app|user|ip) (\S+ ){0,5}(limit|`+
			`capacity|credits?|count) ?(\S+ ){0,3}(exceeded|exhausted|reached|depleted|hit)?\b`,
		`\b(number of|maximum|max) (\S+ ){0,3}concurrent\b`,
		`\b(requests?|calls?|credits?|capacity|throughput|bandwidth) (\S+ ){0,4}(exceeded|`+
			`exhausted|depleted|limit reached|limited)\b`,
		`\b(exceeded|exceeds?|reached|over|hit|exhausted|out of) (\S+ ){0,5}(credits?|`+
			`requests?|request limit|call limit|cost limit|plan|throughput|bandwidth)\b`,
		`\b(exceeded|exceeds?|reached|over|hit|exhausted) (\S+ ){0,5}capacity\b`,
		`\binsufficient (\S+ ){0,2}credits?\b`,
		`^(request |call |calls |usage )?limit( exceeded| reached)?$`,
		`\b(requests|calls|transactions|txs) per (second|minute|hour|day)\b`,
	).
		except(`\bbatch\b`, `\btime ?out\b`, `\bgas limit\b`, `\baccount limit\b`, `\bblob limit\b`,
			`\bpool capacity\b`),
	newRule(
		txn.PoolFull,
		"the pool has no room",
		`\b(pool|mempool|mpool|tx ?pool|queue)\b (\S+ ){0,3}(full|overflow(ed|s)?|exhausted)\b`,
		`\bbacklog\b`,
		`\b(mempool|mpool|tx ?pool|queue) (data |total )?(bytes|size)\b`,
		`\bfull (\S+ ){0,2}(pool|mempool|tx ?pool|queue)\b`,
		`\b(pool|mempool|tx ?pool|queue) (size|capacity|limit|overflow|space|slots?)`,
		`\bout of capacity\b`,
		`\b(pool|mempool|tx ?pool) (is )?at capacity\b`,
		`\bno (more )?(space|room|slots?) (left )?in (the )?(tx ?pool|mempool|pool|queue)\b`,
		`\btoo many (\S+ ){0,3}(transactions|txs|messages)\b`,
		`\baccount (tx |transaction |slots? )?limit exceeded\b`,
		`\bpooled \d+ (txs|transactions)\b`,
		`\bin flight (\S+ ){0,2}limit\b`,
		`\b`+poolCount+` (\S+ ){0,4}(limit|limits|maximum|exceed(s|ed)?)\b`,
		`\b(limit|maximum|max) (\S+ ){0,3}`+poolCount+`\b`,
		`\bimmediately dropped\b`,
		`\b(dropped|discarded|evicted|rejected) (\S+ ){0,2}(due|because|as) (\S+ ){0,5}(limit|`+
			`size|space|capacity|full|room)`,
		`\bdropped (due|because)\b`,
		`\bdue to pool size\b`,
		`\balready reserved\b`,
		`\btransaction type conflict\b`,
		`\btemporarily banned\b`,
		`\b(has|with) (a |an |another |other |already )*(pending|queued|`+
			`in flight) (\S+ )?(transactions?|txs?|txns?)\b`,
		`\bsender transaction limit\b`,
		`\b(transactions?|txs) per (account|sender|address)\b`,
	),
}
