package outcome

import "github.com/fencepost/fencepost/txn"

// priceRules classify fees that a node or the chain finds too low (UNDERPRICED), and fees that
// contradict each other, which share their words.
var priceRules = []rule{
	newRule(txn.Invalid,
		"contradictory fees or value, or a fixed limit of the node; before UNDERPRICED, "+
			"which shares its words",
		`\b(priority fee|tip|tip cap)\b (\S+ ){0,4}(higher|greater|above|exceeds?|larger|more|`+
			`bigger)\b`,
		`\b(priority fee|tip|tip cap) (is )?too high\b`, `\bpriority fee per gas: cannot be\b`,
		`\bless than (the )?(max )?priority fee\b`, `\bhigher than (the )?max priority fee\b`,
		`\bhigher than 2\^`, `\b(fee|tip|cap|price|value) (\S+ ){0,2}very high\b`,
		`\bexceeds the configured cap\b`, `\bfee cap exceeded\b`, `\bfee too high\b`,
		`\bvalue below\b`,
		`\b(gas|cost|value|fee|amount|arithmetic|u?int\d*|uint) (\S+ ){0,3}overflow`,
		`\bnegative value\b`).
		// These texts ask for a higher tip; the tip is not too high.
		except(
			`\b(priority fee|tip|tip cap) (\S+ ){0,4}(must|should|needs|has|`+
				`not) (\S+ ){0,2}(higher|greater|above|larger|more|bigger|exceed)\b`,
			`\brequired (priority fee|tip)\b`),
	newRule(
		txn.Underpriced,
		"below the minimum of the node or the chain, not below another attempt: higher fees "+
			"help",
		`\bunderpriced\b`,
		`\b(gas ?price|fees?|fee ?cap|tip|tip cap|premium|per gas)\b.{0,80}?\b(too low|below|`+
			`lower than|less than|smaller than|under the|at least|higher than \d+ to be)\b`,
		`\b(fee|tip|gas ?price|per gas) (must|should|needs to|has to) (be )?(higher|greater|`+
			`larger|more|exceed)\b`,
		`\b(minimum|minimal|min|required) (\S+ ){0,3}(gas ?price|fee|tip|priority fee)\b`,
		`\b(under|below) (the )?min(imum)?\b`,
		`\binsufficient (\S+ ){0,2}fees?\b`,
		`\btoo low to compete\b`,
		`\bprice (minimum|floor)\b`,
		`\b(unacceptable|zero) gas ?price\b`,
		`\bprice (is )?(too low|insufficient)\b`,
		`\bpubdata price too high\b`,
		`\blow gas ?price\b`,
	).
		except(`\bgas limit\b.*\btoo low\b`),
}
