package outcome

import "github.com/fencepost/fencepost/txn"

// txWord matches the names that clients use for a transaction.
const txWord = `(tx|txs|txn|transactions?|message|extrinsic)`

// poolWord matches the places where a node keeps transactions.
const poolWord = `(tx ?pool|mempool|mpool|pool|cache|queue|system|block ?chain|chain|ledger|block)`

// knownRules match texts that imply that the bytes, or others of their nonce, may be in a pool or
// in a block. These must not be missed.
var knownRules = []rule{
	newRule(
		txn.ExecutionReverted,
		"the contract reverted; the rest is the contract's own text and is not read as the "+
			"node's",
		`\bexecution (was )?reverted\b`,
		`\brevert(ed)? (with (reason|custom error|panic|an unrecognized)|without (a )?reason)`,
		`^revert(ed)?\b`,
		`\bvm execution error\b`,
		`\bcontract revert executed\b`,
		`\brevert opcode\b`,
		`\bevm (error: )?revert(ed)?\b`,
		`\b(transaction|tx|txn|call|contract|simulation) (has been |was |would |will |`+
			`is )?revert(ed|s)?\b`,
		`\bwhile processing transaction: (revert|invalid opcode|out of gas|stack (under|`+
			`over)flow|invalid jump)`,
	).
		// zkSync uses the same words for its own checks of fee and sender.
		except(`failed to pay`, `validation revert`),

	newRule(txn.PoolFull,
		"the pool is busy with other transactions of the account; the bytes are valid; "+
			"before REPLACEMENT_UNDERPRICED, which shares its words",
		`future transaction tries to replace`,
		`insertion of another transaction with the same nonce is in progress`,
		`transaction in process\b`, `\b`+txWord+` types? (\S+ )?conflicts?\b`,
		`\bconflict(s|ing)? (with )?(\S+ ){0,2}types?\b`,
		`\b(sender|account|address) (already )?has (\S+ )?(pending|queued|`+
			`pooled) (\S+ )?`+txWord+`\b.* type\b`,
		`\b(another|other|previous|earlier) `+txWord+` (from|of|for|by) (this|that|the|`+
			`the same|your) (sender|account|address|signer) (is|are) (still |`+
			`currently )?(being|in) `),
	newRule(txn.AlreadyKnown,
		"Filecoin's pool already has the message; it reports another message of the nonce "+
			"as a replacement",
		`\balready in mpool\b`).
		except(`\breplace`),
	newRule(
		txn.ReplacementUnderpriced,
		"the pool holds another attempt of the nonce, which these fees do not outbid; before "+
			"ALREADY_KNOWN, which shares its words",
		`\breplacement\b`,
		`\b(not|cannot|cant|couldnt|unable to|failed to|low to|to trigger) (be )?replaced?\b`,
		`\b(to|would|cannot|must) replace (it|the|an?|another|existing|pending|old|`+txWord+`)\b`,
		`\breplaced by (a |an |another |the )?(better|(newer |other |different |`+
			`pending )?`+txWord+`)\b`,
		`\b(has been|was already|already|was|got) replaced\b`,
		`\b`+txWord+` (with|for|of|using) (this|that|the|your) nonce (\S+ )?(is |was |`+
			`has )?(been )?already (been )?(being|pending|queued|exists?|submitted|received|`+
			`sent|broadcast(ed)?|known|pooled)\b`,
		`\bnonce `+fewWords+`already being (processed|broadcast|validated|handled|submitted)\b`,
		`\bnonce `+fewWords+`(used|taken|held|occupied|reserved) by (a |an |another |`+
			`the )?(pending|queued|pooled|in flight) `+txWord+`\b`,
		`\bnonce (\S+ )?(is |still |already )*in flight\b`,
		`\b(pending|queued|pooled) `+txWord+` (with|of|for|at) (this |that |`+
			`the )?nonce (\S+ )?(already )?exists\b`,
		`\b`+txWord+` (with|which has|has|that has|of) (the )?same (sender and )?nonce\b`,
		`\bsame nonce (is |was |has )?(been )?already\b`,
		`\b(priority is too low|too low priority)\b`,
		`\b(higher|greater|more|larger) than (the )?(existing|queued|pending|pooled) (one|`+
			``+txWord+`)`,
		`\bprice ?bump\b`,
		`\bnot enough to (bump|replace)\b`,
		`\breplace by fee\b`,
		`\brbf\b`,
		`\b(existing|newer|another|other|pending|queued|pooled) `+txWord+` (had|has|have|of|`+
			`with|offers|pays) (an? )?(equal or )?(higher|better|greater) (priority|gas ?price|`+
			`price|fee|tip)`,
		`\b(higher|better|greater) (priority|gas ?price|price|fee|tip) (already )?(exists?|`+
			`is (already )?(pending|queued|in the pool))\b`,
		`\bnonce (conflict|collision)\b`,
		`\bconflicting nonce\b`,
		`\bduplicated? nonce\b`,
		`\bnonce `+fewWords+`already (in|exists? in|pending in|queued in) (the |its |`+
			`our )?`+poolWord+`\b`,
	),
	newRule(txn.AlreadyKnown, "the node accepted the bytes; only its wait for inclusion ended",
		`\badded to the (transaction )?pool but\b`,
		`\b(submitted|broadcast(ed)?|accepted) but (not|wasnt|was not|`+
			`has not been) (yet )?(mined|included|processed|confirmed)\b`),

	newRule(txn.Invalid, "the nonce is the highest possible one; before the other nonce rules",
		`\bnonce (has|is|at|reached|exceeds?|exceeded) (the )?max`,
		`\bnonce `+fewWords+`(2\^64|overflow)`),
	newRule(txn.NonceTooLow,
		"the nonce is used, by an attempt or by another sender; before ALREADY_KNOWN, "+
			"because other bytes may have used it",
		`\bnonce (value )?(is |was )?(too )?(low|small|old|stale|expired|outdated)\b`,
		`\b(old|stale|outdated|expired|used|past) nonce\b`, `\btoo low (a )?nonce\b`,
		`\bnonce of (\S+ ){1,4}(is )?too (low|small|old)\b`,
		`\bsequence (number )?(is )?too (low|small|old)\b`,
		`\b(nonce|sequence number) `+fewWords+`(already |been )+(used|consumed|taken|spent)\b`,
		`\bnonce already (used|exists)\b.*\bexecuted\b`, `\(stale\)`, `::stale\b`,
		`\b`+txWord+` (is )?(outdated|stale)\b`),
	newRule(txn.NonceGap,
		"a lower nonce is missing at this node, which does not queue transactions",
		`\bnonce (value )?(is |was )?(too )?(high|big|large|distant|`+
			`far)\b`, `\bnonce `+fewWords+`gap\b`,
		`\bgapped\b`,
		`\bfuture nonce\b`,
		`\bnonce `+fewWords+`future\b`,
		`\(future\)`,
		`::future\b`,
		`\btransaction (is |will be valid )?(in the )?future\b`, `\b(too )?distant future\b`,
		`\blower nonce\b`,
		`\bnonces? (is |are )?(must be |should be |not |non ?)+(sequential|contiguous|`+
			`consecutive|continuous)\b`,
		`\b(skipped|missing) (a )?nonce\b`, `\bnonce `+fewWords+`skipped\b`,
		`\bnonce (is )?out of (order|sequence)\b`, `\b(waiting for|awaiting) `+fewWords+`nonce\b`,
		`\bmissing (previous|prior|lower|parent) (nonce|transaction)`,
		`\b(previous|prior|lower|parent) (nonce|transaction) (is )?missing\b`,
		`\bnonce of (\S+ ){1,4}(is )?too (high|large|big|far)\b`).
		except(`priority fee`, `\baccount nonce is (too )?(high|big|large)`),
	decidedRule("two nonces compared: the words show which of them is higher",
		nonceCompared, `\bnonce `+fewWords+`(lower|less|smaller|higher|greater|larger|`+
			`bigger) than\b`,
		`\bnonce `+fewWords+`(below|ahead|behind|exceeds)\b`, `\bnonce (\(?\d+\)? )?[<>]`).
		except(`\b(fee|price|gas|balance|funds|premium)\b`),
	decidedRule("a nonce mismatch: the numbers in the text show whether it is too low or too high",
		nonceMisfit,
		`\b(invalid|incorrect|wrong|bad|unexpected|mismatch(ed|ing)?) `+fewWords+`(nonce|`+
			`sequence)\b`,
		`\bnonce (must|should|has to|needs to) be\b`, `\bnonce: expect`,
		`\bnonce (is |of |= ?|: ?)?\(?\d+\)?,? but\b`, `\bnonce check fail`,
		`\b(nonce|sequence) (is )?(not consistent|inconsistent|mismatch|invalid|incorrect|`+
			`wrong|unexpected)`,
		`\b(correct|expected) nonce\b`, `\bnonce intrinsic\b`,
		`\bnonce(s)? (do|does|did)(nt| not) match\b`),

	newRule(
		txn.AlreadyKnown,
		"the node already has these bytes",
		`\b(already|previously) (known|imported)\b`,
		`\bknown (transaction|txn?|message)\b`,
		`\b(same|identical) (transaction )?hash\b`,
		`\balready (in|exists? in|present in|included in|added to|contained in) (the |its |`+
			`our |a )?(tx |transaction |pending |pending transaction |local )?`+poolWord+`\b`,
		`(^|: |\()(already|previously) (imported|exists?|mined|processed|submitted|received|`+
			`seen|broadcast(ed)?|pending)\b`,
		`\balready (have|know|hold|saw|seen) ((this|that|the|these) `+txWord+`\b|(tx|`+
			`transaction) 0x)`,
		`\balready being (processed|broadcast)\b`,
		`^(internal error: )?mined$`,
	).
		except(notTheseBytes...),
	newRule(
		txn.AlreadyKnown,
		"the node already has the transaction; a text with the word nonce may mean another "+
			"transaction of the nonce",
		`\b(tx|txn|transaction|message|extrinsic|hash)\b `+fewWords+`already (been )?(imported|`+
			`in|included|exists?|existed|submitted|received|processed|broadcast(ed)?|pending|`+
			`present|`+
			`pooled|mined|confirmed|accepted|queued|added|seen|finali[sz]ed)\b`,
		`\bduplicated? (tx|txn|transaction)\b`,
		`\b(tx|transaction) is a duplicate\b`,
		`^(\S+: )?(existing|existed|exists) (tx|transaction)\b`,
		`^(\S+: )?(the |this )?(tx|transaction) exists\b`,
	).
		except(
			append([]string{`\bnonce\b`}, notTheseBytes...)...),
	newRule(txn.NonceTooLow,
		"the nonce was used, not necessarily by these bytes",
		`\bnonce already\b`, `\bnonce (is |was )?already\b`),
}

// notTheseBytes match words beside "already known" that refer to something else or negate it.
var notTheseBytes = []string{
	`\bblock (is |was )?already\b`, `\b(not|never) (an? |` +
		`yet )?(already )?known\b`, `\bnonce already\b`,
	`\b(address|account|authority|sender|contract|project|network|subscription|filter|key|` +
		`authorization) (is |has )?already\b`,
	`\balready (rejected|failed|invalid|reserved|terminated|expired|banned|reverted|` +
		`dropped)\b`, `\bknown (to be )?(an )?(bad|invalid|rejected|banned|malicious)\b`,
	`\b(known|duplicated?) (transaction|txn?|message) (type|format|` +
		`version)`,
	`\bconflict`,
	`\bpriority\b`,
	`\bnot already\b`,
	`\btoo many\b`,
	`\banother one\b`,
	`\bas (an )?(invalid|bad|spam|malicious)\b`,
	`\b(contract|code) (that |which )?already\b`, `\b(black|deny|block|ban|` +
		`sanctions?) ?list`, `\binsufficient (funds|balance)\b`, `\b(another|other|different|` +
		`newer|older) ` + txWord + `\b`,
}
