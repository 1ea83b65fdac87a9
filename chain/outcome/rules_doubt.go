package outcome

import "github.com/fencepost/fencepost/txn"

// serversWord is more than one server that may hold the bytes.
const serversWord = `(backends|upstreams|providers|nodes|peers|endpoints|servers|sequencers|validators|replicas|builders|relays|relayers|clients|proposers|bundlers)`

// anyServerWord is serversWord or one of them.
const anyServerWord = `(backend|upstream|provider|node|peer|endpoint|server|sequencer|validator|replica|builder|relay|relayer|client|proposer|bundler)s?`

// passedOnWord is what happens to bytes that are not refused.
const passedOnWord = `(accepted|pooled|broadcast(ed)?|forwarded|submitted|relayed|propagated|published|gossiped|enqueued|queued|inserted|stored|saved|sent)`

// clauseEnd is what stands behind a statement that is complete: "the transaction submitted has no signature" states nothing, and "broadcast failed" the contrary.
const clauseEnd = `( successfully| locally)?([,;:.)]| (but|and|to|into|by|in|on|then|while|however|without|yet)\b|$)`

// doubtRules read what says that the bytes are somewhere already, whatever failed afterwards or elsewhere. What failed is told in the words of every other rule,
// so they come before all that refuse; behind the pool's, which tell more.
var doubtRules = []rule{
	newRule(
		txn.Ambiguous,
		"bytes that were taken or passed on before something else failed; before whatever tells that failure",
		`\b`+txWord+` (was |were |is |has been |have been |had been |already |successfully )*`+passedOnWord+clauseEnd,
		`\b(may|might|could) (already |still )*(have|has) (already )?been (\S+ )?(`+passedOnWord+`|received|processed|included|executed|added|mined)\b`,
		`(^|[,;:.(] ?|\b(was|were|been|got) )(`+passedOnWord+`|added) (in|into|to|by) (the |its |our |a )?(\S+ )?(`+poolWord+`|`+anyServerWord+`)\b`,
		`\b(forwarded|submitted|relayed|broadcast|broadcasted|sent|propagated|published) to \d+\b`,
		`\b(after|since) (the |its |our )?(`+txWord+` )?(was |were |being |been |has been )?(acceptance|submission|broadcasting|broadcast|insertion|accepted|submitted|forwarded|pooled)\b`,
	),
	newRule(
		txn.Ambiguous,
		"what some of several servers say; the others may have taken the bytes",
		`\b\d+ ?(of|out of|/) ?(the |its |our )?\d+ (\S+ )?`+serversWord+`\b`,
		`\b\d+ ?(of|out of|/) ?\d+ (failed|rejected|returned|refused|responded|succeeded|accepted)\b`,
		`\b`+anyServerWord+` ?#?\d+ ?[:=(].*\b`+anyServerWord+` ?#?\d+ ?[:=(]`,
		`\b(\d+|one|some|several|many|most|other|another|a majority|a minority|part) (of )?(the |its |our )?(\S+ )?`+anyServerWord+` (has |have |had )?(failed|rejected|returned|refused|responded|answered|replied|reported|said|disagreed)\b`,
		`\b(partial|partially) (success|failure|failed|accepted|successful)\b`,
		`\b(no|without|below) quorum\b`,
	),
}
