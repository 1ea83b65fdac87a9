package outcome

import "github.com/fencepost/fencepost/txn"

// someServers is more than one server that may hold the bytes.
const someServers = `(backends|upstreams|providers|nodes|peers|endpoints|servers|sequencers|validators|replicas|builders|relays|relayers|clients|proposers|bundlers)`

// oneServer is someServers or one of them.
const oneServer = `(backend|upstream|provider|node|peer|endpoint|server|sequencer|validator|replica|builder|relay|relayer|client|proposer|bundler)s?`

// passedOn is what happens to bytes that are not refused.
const passedOn = `(accepted|pooled|broadcast(ed)?|forwarded|submitted|relayed|propagated|published|gossiped|enqueued|queued|inserted|stored|saved|sent)`

// goesOn is what stands behind a statement that is complete: "the transaction submitted has no signature" states nothing, and "broadcast failed" the contrary.
const goesOn = `( successfully| locally)?([,;:.)]| (but|and|to|into|by|in|on|then|while|however|without|yet)\b|$)`

// doubtRules read what says that the bytes are somewhere already, whatever failed afterwards or elsewhere. What failed is told in the words of every other rule,
// so they come before all that refuse; behind the pool's, which tell more.
var doubtRules = []rule{
	kind(
		txn.Ambiguous,
		"bytes that were taken or passed on before something else failed; before whatever tells that failure",
		`\b`+someTx+` (was |were |is |has been |have been |had been |already |successfully )*`+passedOn+goesOn,
		`\b(may|might|could) (already |still )*(have|has) (already )?been (\S+ )?(`+passedOn+`|received|processed|included|executed|added|mined)\b`,
		`(^|[,;:.(] ?|\b(was|were|been|got) )(`+passedOn+`|added) (in|into|to|by) (the |its |our |a )?(\S+ )?(`+somePool+`|`+oneServer+`)\b`,
		`\b(forwarded|submitted|relayed|broadcast|broadcasted|sent|propagated|published) to \d+\b`,
		`\b(after|since) (the |its |our )?(`+someTx+` )?(was |were |being |been |has been )?(acceptance|submission|broadcasting|broadcast|insertion|accepted|submitted|forwarded|pooled)\b`,
	),
	kind(
		txn.Ambiguous,
		"what some of several servers say; the others may have taken the bytes",
		`\b\d+ ?(of|out of|/) ?(the |its |our )?\d+ (\S+ )?`+someServers+`\b`,
		`\b\d+ ?(of|out of|/) ?\d+ (failed|rejected|returned|refused|responded|succeeded|accepted)\b`,
		`\b`+oneServer+` ?#?\d+ ?[:=(].*\b`+oneServer+` ?#?\d+ ?[:=(]`,
		`\b(\d+|one|some|several|many|most|other|another|a majority|a minority|part) (of )?(the |its |our )?(\S+ )?`+oneServer+` (has |have |had )?(failed|rejected|returned|refused|responded|answered|replied|reported|said|disagreed)\b`,
		`\b(partial|partially) (success|failure|failed|accepted|successful)\b`,
		`\b(no|without|below) quorum\b`,
	),
}
