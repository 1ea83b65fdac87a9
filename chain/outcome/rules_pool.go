package outcome

import "github.com/fencepost/fencepost/txn"

// txWord is how clients name a transaction.
const txWord = `(tx|txs|txn|transactions?|message|extrinsic)`

// poolWord is where a node keeps what it has.
const poolWord = `(tx ?pool|mempool|mpool|pool|cache|queue|system|block ?chain|chain|ledger|block)`

// poolRules read what says that the bytes, or others of their nonce, may be in a pool or in a block: the readings that must not be missed.
var poolRules = []rule{
	newRule(
		txn.ExecutionReverted,
		"the contract refused; what follows is the contract's own text and must not be read as the node's",
		`\bexecution (was )?reverted\b`,
		`\brevert(ed)? (with (reason|custom error|panic|an unrecognized)|without (a )?reason)`,
		`^revert(ed)?\b`,
		`\bvm execution error\b`,
		`\bcontract revert executed\b`,
		`\brevert opcode\b`,
		`\bevm (error: )?revert(ed)?\b`,
		`\b(transaction|tx|txn|call|contract|simulation) (has been |was |would |will |is )?revert(ed|s)?\b`,
		`\bwhile processing transaction: (revert|invalid opcode|out of gas|stack (under|over)flow|invalid jump)`,
	).
		// zkSync reports its own checks of fee and sender in the same words.
		except(`failed to pay`, `validation revert`),

	newRule(txn.PoolFull,
		"the pool is busy with this account's other transactions: no room now, nothing wrong with the bytes; before REPLACEMENT, whose words it uses",
		`future transaction tries to replace`,
		`insertion of another transaction with the same nonce is in progress`,
		`transaction in process\b`, `\b`+txWord+` types? (\S+ )?conflicts?\b`,
		`\bconflict(s|ing)? (with )?(\S+ ){0,2}types?\b`,
		`\b(sender|account|address) (already )?has (\S+ )?(pending|queued|pooled) (\S+ )?`+txWord+`\b.* type\b`,
		`\b(another|other|previous|earlier) `+txWord+` (from|of|for|by) (this|that|the|the same|your) (sender|account|address|signer) (is|are) (still |currently )?(being|in) `),
	newRule(txn.AlreadyKnown,
		"Filecoin's pool names the nonce of the message that it has; another message of that nonce is told as a replacement",
		`\balready in mpool\b`).
		except(`\breplace`),
	newRule(
		txn.ReplacementUnderpriced,
		"another attempt of the same nonce sits in the pool and is not outbid; before ALREADY_KNOWN, whose words it uses",
		`\breplacement\b`,
		`\b(not|cannot|cant|couldnt|unable to|failed to|low to|to trigger) (be )?replaced?\b`,
		`\b(to|would|cannot|must) replace (it|the|an?|another|existing|pending|old|`+txWord+`)\b`,
		`\breplaced by (a |an |another |the )?(better|(newer |other |different |pending )?`+txWord+`)\b`,
		`\b(has been|was already|already|was|got) replaced\b`,
		`\b`+txWord+` (with|for|of|using) (this|that|the|your) nonce (\S+ )?(is |was |has )?(been )?already (been )?(being|pending|queued|exists?|submitted|received|sent|broadcast(ed)?|known|pooled)\b`,
		`\bnonce `+fewWords+`already being (processed|broadcast|validated|handled|submitted)\b`,
		`\bnonce `+fewWords+`(used|taken|held|occupied|reserved) by (a |an |another |the )?(pending|queued|pooled|in flight) `+txWord+`\b`,
		`\bnonce (\S+ )?(is |still |already )*in flight\b`,
		`\b(pending|queued|pooled) `+txWord+` (with|of|for|at) (this |that |the )?nonce (\S+ )?(already )?exists\b`,
		`\b`+txWord+` (with|which has|has|that has|of) (the )?same (sender and )?nonce\b`,
		`\bsame nonce (is |was |has )?(been )?already\b`,
		`\b(priority is too low|too low priority)\b`,
		`\b(higher|greater|more|larger) than (the )?(existing|queued|pending|pooled) (one|`+txWord+`)`,
		`\bprice ?bump\b`,
		`\bnot enough to (bump|replace)\b`,
		`\breplace by fee\b`,
		`\brbf\b`,
		`\b(existing|newer|another|other|pending|queued|pooled) `+txWord+` (had|has|have|of|with|offers|pays) (an? )?(equal or )?(higher|better|greater) (priority|gas ?price|price|fee|tip)`,
		`\b(higher|better|greater) (priority|gas ?price|price|fee|tip) (already )?(exists?|is (already )?(pending|queued|in the pool))\b`,
		`\bnonce (conflict|collision)\b`,
		`\bconflicting nonce\b`,
		`\bduplicated? nonce\b`,
		`\bnonce `+fewWords+`already (in|exists? in|pending in|queued in) (the |its |our )?`+poolWord+`\b`,
	),
	newRule(txn.AlreadyKnown, "the node took the bytes and only its wait for inclusion ended",
		`\badded to the (transaction )?pool but\b`,
		`\b(submitted|broadcast(ed)?|accepted) but (not|wasnt|was not|has not been) (yet )?(mined|included|processed|confirmed)\b`),

	newRule(txn.Invalid, "the highest nonce there is; before the other nonce rules",
		`\bnonce (has|is|at|reached|exceeds?|exceeded) (the )?max`,
		`\bnonce `+fewWords+`(2\^64|overflow)`),
	newRule(txn.NonceTooLow,
		"the nonce is used up, by one of our attempts or by somebody else; before ALREADY_KNOWN, because the bytes that used it may be others",
		`\bnonce (value )?(is |was )?(too )?(low|small|old|stale|expired|outdated)\b`,
		`\b(old|stale|outdated|expired|used|past) nonce\b`, `\btoo low (a )?nonce\b`,
		`\bnonce of (\S+ ){1,4}(is )?too (low|small|old)\b`,
		`\bsequence (number )?(is )?too (low|small|old)\b`,
		`\b(nonce|sequence number) `+fewWords+`(already |been )+(used|consumed|taken|spent)\b`,
		`\bnonce already (used|exists)\b.*\bexecuted\b`, `\(stale\)`, `::stale\b`,
		`\b`+txWord+` (is )?(outdated|stale)\b`),
	newRule(txn.NonceGap, "a lower nonce is missing at this node, which does not queue",
		`\bnonce (value )?(is |was )?(too )?(high|big|large|distant|far)\b`, `\bnonce `+fewWords+`gap\b`,
		`\bgapped\b`, `\bfuture nonce\b`, `\bnonce `+fewWords+`future\b`, `\(future\)`, `::future\b`,
		`\btransaction (is |will be valid )?(in the )?future\b`, `\b(too )?distant future\b`,
		`\blower nonce\b`,
		`\bnonces? (is |are )?(must be |should be |not |non ?)+(sequential|contiguous|consecutive|continuous)\b`,
		`\b(skipped|missing) (a )?nonce\b`, `\bnonce `+fewWords+`skipped\b`,
		`\bnonce (is )?out of (order|sequence)\b`, `\b(waiting for|awaiting) `+fewWords+`nonce\b`,
		`\bmissing (previous|prior|lower|parent) (nonce|transaction)`,
		`\b(previous|prior|lower|parent) (nonce|transaction) (is )?missing\b`,
		`\bnonce of (\S+ ){1,4}(is )?too (high|large|big|far)\b`).
		except(`priority fee`, `\baccount nonce is (too )?(high|big|large)`),
	decidedRule("two nonces compared: the side that is named first tells which of them is ahead",
		nonceCompared, `\bnonce `+fewWords+`(lower|less|smaller|higher|greater|larger|bigger) than\b`,
		`\bnonce `+fewWords+`(below|ahead|behind|exceeds)\b`, `\bnonce (\(?\d+\)? )?[<>]`).
		except(`\b(fee|price|gas|balance|funds|premium)\b`),
	decidedRule("a nonce that does not fit: the numbers in the text say whether it is used up or ahead",
		nonceMisfit,
		`\b(invalid|incorrect|wrong|bad|unexpected|mismatch(ed|ing)?) `+fewWords+`(nonce|sequence)\b`,
		`\bnonce (must|should|has to|needs to) be\b`, `\bnonce: expect`,
		`\bnonce (is |of |= ?|: ?)?\(?\d+\)?,? but\b`, `\bnonce check fail`,
		`\b(nonce|sequence) (is )?(not consistent|inconsistent|mismatch|invalid|incorrect|wrong|unexpected)`,
		`\b(correct|expected) nonce\b`, `\bnonce intrinsic\b`,
		`\bnonce(s)? (do|does|did)(nt| not) match\b`),

	newRule(
		txn.AlreadyKnown,
		"the node has these very bytes",
		`\b(already|previously) (known|imported)\b`,
		`\bknown (transaction|txn?|message)\b`,
		`\b(same|identical) (transaction )?hash\b`,
		`\balready (in|exists? in|present in|included in|added to|contained in) (the |its |our |a )?(tx |transaction |pending |pending transaction |local )?`+poolWord+`\b`,
		`(^|: |\()(already|previously) (imported|exists?|mined|processed|submitted|received|seen|broadcast(ed)?|pending)\b`,
		`\balready (have|know|hold|saw|seen) ((this|that|the|these) `+txWord+`\b|(tx|transaction) 0x)`,
		`\balready being (processed|broadcast)\b`,
		`^(internal error: )?mined$`,
	).
		except(notTheseBytes...),
	newRule(
		txn.AlreadyKnown,
		"words that could be of another transaction of the nonce, if they named a nonce",
		`\b(tx|txn|transaction|message|extrinsic|hash)\b `+fewWords+`already (been )?(imported|in|included|exists?|existed|submitted|received|processed|broadcast(ed)?|pending|present|`+
			`pooled|mined|confirmed|accepted|queued|added|seen|finali[sz]ed)\b`,
		`\bduplicated? (tx|txn|transaction)\b`,
		`\b(tx|transaction) is a duplicate\b`,
		`^(\S+: )?(existing|existed|exists) (tx|transaction)\b`,
		`^(\S+: )?(the |this )?(tx|transaction) exists\b`,
	).
		except(
			append([]string{`\bnonce\b`}, notTheseBytes...)...),
	newRule(txn.NonceTooLow,
		"the account's nonce was used by something; it does not say that it was these bytes",
		`\bnonce already\b`, `\bnonce (is |was )?already\b`),
}

// notTheseBytes are words beside "already known" and its like that speak of something else, or say no.
var notTheseBytes = []string{
	`\bblock (is |was )?already\b`, `\b(not|never) (an? |yet )?(already )?known\b`, `\bnonce already\b`,
	`\b(address|account|authority|sender|contract|project|network|subscription|filter|key|authorization) (is |has )?already\b`,
	`\balready (rejected|failed|invalid|reserved|terminated|expired|banned|reverted|dropped)\b`, `\bknown (to be )?(an )?(bad|invalid|rejected|banned|malicious)\b`,
	`\b(known|duplicated?) (transaction|txn?|message) (type|format|version)`, `\bconflict`, `\bpriority\b`, `\bnot already\b`, `\btoo many\b`, `\banother one\b`, `\bas (an )?(invalid|bad|spam|malicious)\b`,
	`\b(contract|code) (that |which )?already\b`, `\b(black|deny|block|ban|sanctions?) ?list`, `\binsufficient (funds|balance)\b`, `\b(another|other|different|newer|older) ` + txWord + `\b`,
}
