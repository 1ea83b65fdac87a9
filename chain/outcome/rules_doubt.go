package outcome

import "github.com/fencepost/fencepost/txn"

// serversWord matches several servers that may hold the bytes.
const serversWord = `(backends|upstreams|providers|nodes|peers|endpoints|servers|sequencers|` +
	`validators|replicas|builders|relays|relayers|clients|proposers|bundlers)`

// anyServerWord matches serversWord or a single one of them.
const anyServerWord = `(backend|upstream|provider|node|peer|endpoint|server|sequencer|` +
	`validator|replica|builder|relay|relayer|client|proposer|bundler)s?`

// passedOnWord matches actions that imply that the bytes were accepted.
const passedOnWord = `(accepted|pooled|broadcast(ed)?|forwarded|submitted|relayed|propagated|` +
	`published|gossiped|enqueued|queued|inserted|stored|saved|sent)`

// clauseEnd matches the end of a complete statement: "the transaction submitted has no signature"
// is not one, and "broadcast failed" states the contrary.
const clauseEnd = `( successfully| locally)?([,;:.)]| (but|and|to|into|by|in|on|then|while|` +
	`however|without|yet)\b|$)`

// doubtRules match texts that imply that some node has the bytes, whichever step failed
// afterwards. Such failures use the words of every other rule, so these rules precede all
// rejections. They follow the pool rules, which are more specific.
var doubtRules = []rule{
	newRule(
		txn.Ambiguous,
		"the bytes were accepted or forwarded before something else failed; before the "+
			"rules for such failures",
		`\b`+txWord+` (was |were |is |has been |have been |had been |already |`+
			`successfully )*`+passedOnWord+clauseEnd,
		`\b(may|might|could) (already |still )*(have|`+
			`has) (already )?been (\S+ )?(`+passedOnWord+`|received|processed|included|`+
			`executed|added|mined)\b`,
		`(^|[,;:.(] ?|\b(was|were|been|got) )(`+passedOnWord+`|added) (in|into|to|by) (the |`+
			`its |our |a )?(\S+ )?(`+poolWord+`|`+anyServerWord+`)\b`,
		`\b(forwarded|submitted|relayed|broadcast|broadcasted|sent|propagated|published) to \d+\b`,
		`\b(after|since) (the |its |our )?(`+txWord+` )?(was |were |being |been |`+
			`has been )?(acceptance|submission|broadcasting|broadcast|insertion|accepted|`+
			`submitted|forwarded|pooled)\b`,
	),
	newRule(
		txn.Ambiguous,
		"the response of some of several servers; the others may have accepted the bytes",
		`\b\d+ ?(of|out of|/) ?(the |its |our )?\d+ (\S+ )?`+serversWord+`\b`,
		`\b\d+ ?(of|out of|/) ?\d+ (failed|rejected|returned|refused|responded|succeeded|`+
			`accepted)\b`,
		`\b`+anyServerWord+` ?#?\d+ ?[:=(].*\b`+anyServerWord+` ?#?\d+ ?[:=(]`,
		`\b(\d+|one|some|several|many|most|other|another|a majority|a minority|`+
			`part) (of )?(the |its |our )?(\S+ )?`+anyServerWord+` (has |have |had )?(failed|`+
			`rejected|returned|refused|responded|answered|replied|reported|said|disagreed)\b`,
		`\b(partial|partially) (success|failure|failed|accepted|successful)\b`,
		`\b(no|without|below) quorum\b`,
	),
}
