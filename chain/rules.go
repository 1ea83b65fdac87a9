package chain

import (
	"regexp"
	"strings"

	"github.com/fencepost/fencepost/txn"
)

// rule reads one kind of text. Rules are tried in order and the first that matches decides, so an order of two rules is a statement too; where it matters
// the reason says so.
type rule struct {
	class  txn.Class
	why    string
	match  *regexp.Regexp
	unless *regexp.Regexp         // nil: no exception
	decide func(string) txn.Class // nil: class
}

func (r *rule) read(text string) (txn.Class, bool) {
	if !r.match.MatchString(text) || r.unless != nil && r.unless.MatchString(text) {
		return "", false
	}
	if r.decide != nil {
		return r.decide(text), true
	}
	return r.class, true
}

func kind(class txn.Class, why string, patterns ...string) rule {
	return rule{class: class, why: why, match: anyOf(patterns...)}
}

func (r rule) except(patterns ...string) rule {
	r.unless = anyOf(patterns...)
	return r
}

func anyOf(patterns ...string) *regexp.Regexp {
	return regexp.MustCompile(strings.Join(patterns, "|"))
}

// few is a gap of at most six words inside a phrase: texts carry addresses and numbers between the words that matter.
const few = `(\S+ ){0,6}`

// rules is the outcome table. Texts are in the form that normalise gives them.
//
// The order follows from what a wrong reading costs. What says that the bytes (or another attempt of ours) may sit in a pool, or that the nonce is used,
// comes first. Then what is about money and room, then what is about the endpoint; INVALID, which gives bytes up, comes last and asks for words that speak
// of the transaction itself.
var rules = []rule{
	kind(txn.ExecutionReverted, "the contract refused; what follows is the contract's own text and must not be read as the node's",
		`\bexecution (was )?reverted\b`, `\brevert(ed)? with (reason|custom error|panic|an unrecognized)`, `^revert(ed)?\b`, `\bvm execution error\b`,
		`\bcontract revert executed\b`, `\brevert opcode\b`, `\bevm (error: )?revert(ed)?\b`, `\btransaction (has been |was |would )?revert(ed)?\b`,
		`\bwhile processing transaction: (revert|invalid opcode|out of gas|stack (under|over)flow|invalid jump)`).
		// zkSync reports its own checks of fee and sender in the same words.
		except(`failed to pay`, `validation revert`),

	kind(txn.AlreadyKnown, "the node took the bytes and only its wait for inclusion ended", `\badded to the (transaction )?pool but\b`),
	kind(txn.AlreadyKnown, "Filecoin's pool names the nonce of the message that it has; another message of that nonce is told as a replacement", `\balready in mpool\b`),
	kind(txn.PoolFull, "the pool is busy with this account's other transactions: no room now, nothing wrong with the bytes; before REPLACEMENT, whose words it uses",
		`future transaction tries to replace`, `insertion of another transaction with the same nonce is in progress`, `transaction in process\b`),
	kind(txn.ReplacementUnderpriced, "another attempt of the same nonce sits in the pool and is not outbid; before ALREADY_KNOWN, whose words it uses",
		`\breplacement\b`, `\b(not|cannot|cant|couldnt|unable to|failed to|low to) (be )?replaced?\b`, `\bto replace (it|the|an|another|existing|pending|old)\b`,
		`\breplaced by (a )?better\b`, `\b(tx|txs|txn|transactions?|message) with (the )?same (sender and )?nonce\b`, `\bsame nonce (is |was |has )?(been )?already\b`,
		`\b(priority is too low|too low priority)\b`, `\bprice ?bump\b`, `\bnot enough to (bump|replace)\b`, `\breplace by fee\b`, `\brbf\b`,
		`\bnonce `+few+`already (in|exists in) (the )?(pool|mempool|txpool)\b`),

	kind(txn.Invalid, "the highest nonce there is; before the other nonce rules", `\bnonce (has|is|at|reached|exceeds?|exceeded) (the )?max`, `\bnonce `+few+`(2\^64|overflow)`),
	kind(txn.NonceTooLow, "the nonce is used up, by one of our attempts or by somebody else; before ALREADY_KNOWN, because the bytes that used it may be others",
		`\bnonce (is |was )?(too )?(low|small|old|stale|expired|outdated)\b`, `\b(old|stale|outdated|expired|used|past) nonce\b`,
		`\bnonce `+few+`(already |been )+(used|consumed|taken|spent)\b`, `\bnonce already (used|exists)\b.*\bexecuted\b`,
		`\(stale\)`, `::stale\b`, `\btransaction is (outdated|stale)\b`, `\btransaction (outdated|stale)\b`,
		`\bnonce `+few+`(lower|less|smaller) than\b`, `\bnonce `+few+`below\b`),
	kind(txn.NonceGap, "a lower nonce is missing at this node, which does not queue",
		`\bnonce (is |was )?(too )?(high|big|large|distant|far)\b`, `\bnonce `+few+`gap\b`, `\bgapped\b`, `\bfuture nonce\b`, `\bnonce `+few+`future\b`,
		`\(future\)`, `::future\b`, `\btransaction (is |will be valid )?(in the )?future\b`, `\b(too )?distant future\b`, `\blower nonce\b`,
		`\bnonce `+few+`(higher|greater|larger|bigger) than\b`, `\bnonce `+few+`ahead\b`, `\bmissing (previous|prior|lower) (nonce|transaction)`).
		except(`priority fee`),
	{why: "a nonce that does not fit: the numbers in the text say whether it is used up or ahead", decide: nonceByNumbers,
		match: anyOf(`\b(invalid|incorrect|wrong|bad|unexpected|mismatch(ed|ing)?) `+few+`(nonce|sequence)\b`,
			`\b(nonce|sequence) (is )?(mismatch|invalid|incorrect|wrong|unexpected)`, `\b(correct|expected) nonce\b`, `\bnonce(s)? (do|does|did)(nt| not) match\b`)},

	kind(txn.AlreadyKnown, "the node has these very bytes",
		`\b(already|previously) known\b`, `\bknown (transaction|tx)\b`, `\b(same|identical) (transaction )?hash\b`,
		`\balready (in|exists? in|present in|included in|added to|contained in) (the |its |our |a )?(tx |transaction )?(mempool|mpool|txpool|pool|cache|queue|system|blockchain|chain|ledger|block)\b`,
		`\b(tx|txn|transaction|message|extrinsic|hash)\b `+few+`already (been )?(imported|in|included|exists?|existed|submitted|received|processed|broadcast(ed)?|pending|present|`+
			`pooled|mined|confirmed|accepted|queued|added|seen|finali[sz]ed)\b`,
		`(^|: |\()(already|previously) (imported|exists?|mined|processed|submitted|received|seen|broadcast(ed)?|pending)\b`,
		`\bduplicated? (tx|txn|transaction)\b`, `\b(tx|transaction) is a duplicate\b`, `\b(existing|existed|exists) (tx|transaction)\b`, `^mined$`).
		except(`\bblock (is |was )?already\b`, `\b(not|never) (a )?(already )?known\b`, `\bnonce already\b`, `\b(address|account|authority|sender) (is )?already\b`,
			`\balready (rejected|failed|invalid|reserved|terminated|expired|banned)\b`),
	kind(txn.NonceTooLow, "the account's nonce was used by something; it does not say that it was these bytes", `\bnonce already\b`, `\bnonce (is |was )?already\b`),

	kind(txn.FeeCapBelowBaseFee, "the most we pay is below what a block asks now: wait or bid more",
		`\b(fee|price|cap)\b.*(\bless\b|\blower\b|\bbelow\b|\bunder\b|\bsmaller\b|\btoo low\b|<|\bmeet\b|\bcover\b).*\bbase ?fee\b`,
		`\bbase ?fee\b.*\b(greater|higher|exceeds|above|more|larger) (than )?.*\b(fee|price|cap)\b`,
		`\bblob gas price is (greater|higher)\b`, `\bper blob gas (is )?(less|lower|below|too low)\b`).
		except(`\beffective priority\b`),
	kind(txn.Unavailable, "the gateway's own account is out of money, not ours; before INSUFFICIENT_FUNDS", `\binsufficient payer balance\b`, `\bprecheck with status (busy|platform)`),
	kind(txn.InsufficientFunds, "the account cannot pay for it now; it can be funded",
		`\binsufficient `+few+`(funds?|balance|ether|coins?|tokens?)\b`, `\bnot enough `+few+`(funds?|balance|ether|money|coins?)\b`, `\benough (funds?|balance|ether|money)\b`,
		`\bexceeds? `+few+`balance\b`, `\bbalance `+few+`(less than|lower than|too low|below|insufficient|not enough|cannot cover|is low)\b`, `\bupfront cost\b`,
		`\b(inability|unable|cannot|cant|failed|not able) (to )?(pay|afford)\b`, `\black(s|ing)? (of )?funds\b`, `\boverdraft\b`, `\bout of (funds|balance)\b`, `::payment\b`, `\(payment\)`,
		`\bcost `+few+`(exceeds|greater than|higher than) `+few+`balance\b`).
		except(`\bintrinsic\b`),

	kind(txn.RateLimited, "a provider's request limit: the bytes were not looked at; before INVALID, because limits are told in words of size and quota",
		`\brate limit`, `\brate (has been |was |is )?exceeded\b`, `\btoo many (\S+ ){0,3}(requests|calls|connections|queries)\b`, `\bthrottl`, `\bquota\b`, `\bcompute units?\b`,
		`(^|status |status code |code |code: |http |error |error: )429\b`, `\b429 too\b`, `\bpayment required\b`, `\bslow down\b`, `\brps\b`,
		`\b(daily|monthly|hourly|concurrent|project|plan|api|app|user|ip) (\S+ ){0,5}(limit|capacity|credits?|count) ?(\S+ ){0,3}(exceeded|exhausted|reached|depleted|hit)?\b`,
		`\b(number of|maximum|max) (\S+ ){0,3}concurrent\b`, `\b(requests?|calls?|credits?|capacity|throughput) (\S+ ){0,4}(exceeded|exhausted|depleted|limit reached)\b`,
		`\b(exceeded|exceeds?|reached|over|hit|exhausted) (\S+ ){0,5}(capacity|credits?|requests?|request limit|call limit|cost limit|plan|throughput)\b`,
		`^(request |call |calls |usage )?limit( exceeded| reached)?$`).
		except(`\bbatch\b`, `\btime ?out\b`, `\bgas limit\b`, `\baccount limit\b`, `\bblob limit\b`),
	kind(txn.PoolFull, "the pool has no room for it now",
		`\b(pool|mempool|mpool|txpool|queue)\b (\S+ ){0,3}full\b`, `\bfull (\S+ ){0,2}(pool|mempool|txpool|queue)\b`, `\b(pool|mempool|txpool) (size|capacity|limit|overflow)`,
		`\bout of capacity\b`, `\btoo many (\S+ ){0,3}(transactions|txs|messages)\b`, `\baccount limit exceeded\b`, `\bpooled \d+ (txs|transactions)\b`, `\bin flight (\S+ ){0,2}limit\b`,
		`\b(pending|queued|in flight|pooled|future) (\S+ ){0,4}(limit|limits|maximum|exceed(s|ed)?)\b`, `\b(limit|maximum|max) (\S+ ){0,3}(pending|queued|in flight|pooled)\b`,
		`\bimmediately dropped\b`, `\bdropped (due|because)\b`, `\bdue to pool size\b`, `\balready reserved\b`, `\btransaction type conflict\b`, `\btemporarily banned\b`,
		`\bhas (a )?pending transaction\b`, `\bsender transaction limit\b`),
	kind(txn.Unavailable, "the call never left, or the endpoint says that it cannot serve now; before INVALID, because gateways quote the words of what they failed to do",
		`\bdial (tcp|udp|unix|error)\b`, `\bconnection refused\b`, `\bno such host\b`, `\bnetwork is unreachable\b`, `\bno route to host\b`,
		`\bshut(ting)? ?down\b`, `\b(pool|node|server|service) (\S+ ){0,2}(terminated|stopped|stopping|closed)\b`, `\bnot ready\b`, `\bnot (yet )?(started|initiali[sz]ed|synced|in sync)\b`,
		`\bsyncing\b`, `\bcatch(ing)? up\b`, `\bout of sync\b`, `\b(header|block|state|head) (is |was )?not (found|available)\b`, `\bindexing is in progress\b`, `\bmissing trie node\b`,
		`\b(service|node|backend|server|upstream|sequencer|resource|world state|state|network|rpc|api) (\S+ ){0,3}(unavailable|unreachable|offline|unhealthy|overloaded|busy|down|paused)\b`,
		`\b(could not|cannot|cant|failed to|unable to) connect\b`, `\bupstreams? (\S+ ){0,3}(unhealthy|unavailable|failed)\b`, `\bno (\S+ ){0,3}(backends?|upstreams?|providers?|nodes?|peers?|endpoints?|servers?|sequencers?)\b`, `\bbad gateway\b`, `\bmaintenance\b`, `\btemporar(y|ily) (unavailable|failure|error)\b`,
		`\b(currently|temporarily) unavailable\b`, `\boverloaded\b`, `\bis busy\b`, `\b50[23] (service|bad|server)\b`, `\bnot enough gas power\b`),
	kind(txn.Ambiguous, "the call left and no answer to it came back: the transaction may have been accepted",
		`\btime ?out\b`, `\btimed out\b`, `\bdeadline exceeded\b`, `\bcontext cancell?ed\b`, `\beof\b`, `\bconnection (was )?(reset|closed|lost|aborted)\b`, `\bbroken pipe\b`,
		`\bchannel closed\b`, `\bclosed (network )?connection\b`, `\b(request|response|reply) (body )?(was )?(lost|dropped|cancell?ed)\b`, `\btime out too long\b`,
		`\b50[04] (internal|gateway)\b`, `\b(from|by) (the )?(upstream|backend)\b`),

	kind(txn.WrongChain, "signed for another chain; before INVALID, because a misplaced endpoint is to be fixed, not the transaction",
		`\b(invalid|wrong|incorrect|unexpected|bad|mismatch(ed|ing)?|different|unsupported|unknown|missing)_? (\S+ ){0,3}chain ?id\b`,
		`\bchain ?ids? (\S+ ){0,5}(mismatch|invalid|incorrect|wrong|(is )?not supported|unsupported|not match|doesnt match|not allowed|required|is missing|differs?|not equal)`,
		`\b(another|different|wrong|other) (chain|network)\b`, `\breplay protection (is )?required\b`, `\bincompatible eip-?155\b`),

	kind(txn.Invalid, "the gas limit is below what any execution needs, or above what any block allows",
		`\bintrinsic\b`, `\bgas (limit )?(is )?too low\b`, `\bfloor data gas\b`, `\bgas floor\b`, `\binsufficient gas\b`, `\bnot enough gas\b`, `\bfield cannot be less than\b`,
		`\b(exceeds?|exceeded|above|beyond|greater than|higher than|over|larger than|more than) `+few+`(gas limit|gas cap|limit cap|gas allowance|maximum gas)\b`,
		`\bgas limit `+few+`(exceed|too high|too large|beyond|greater|higher|above|over|reached)`, `\bsupplied gas is beyond\b`, `\bgas (cap |limit )?exceeded\b`,
		`\bgas (uint64 |u64 )?(uint )?overflow\b`, `\bgas required exceeds\b`, `\bgas `+few+`exceeds the (maximum|max|block|cap)\b`, `\bout of gas\b`, `\bcost exceeds current gas limit\b`,
		`\bcounters\b`, `\bgas uint overflow\b`, `\b(basic|minimal|minimum) (gas )?cost is above\b`).
		except(`\bper gas (is )?too low\b`),
	kind(txn.Invalid, "fees or value that contradict themselves, or that the node's owner forbids whatever happens; before UNDERPRICED, whose words it uses",
		`\b(priority fee|tip|tip cap)\b (\S+ ){0,4}(higher|greater|above|exceeds?|larger|more|bigger)\b`, `\bless than (the )?(max )?priority fee\b`, `\bhigher than 2\^`, `\bvery high\b`,
		`\bexceeds the configured cap\b`, `\bfee cap exceeded\b`, `\bfee too high\b`, `\boverflow\b`, `\bnegative value\b`, `\bcost overflow\b`),
	kind(txn.Underpriced, "below the node's or the chain's minimum, not below another transaction of ours: bid more",
		`\bunderpriced\b`, `\b(gas ?price|fees?|tip|tip cap|premium|per gas)\b.{0,80}?\b(too low|below|lower than|less than|smaller than|under the|at least|higher than \d+ to be)\b`,
		`\b(minimum|minimal|min) (\S+ ){0,3}(gas ?price|fee|tip|priority fee)\b`, `\binsufficient (\S+ ){0,2}fees?\b`, `\btoo low to compete\b`, `\bprice (minimum|floor)\b`,
		`\b(unacceptable|zero) gas ?price\b`, `\bpubdata price too high\b`, `\blow gas ?price\b`).
		except(`\bgas limit\b.*\btoo low\b`),
	kind(txn.Invalid, "too big for any pool of this chain",
		`\boversized\b`, `\b(transaction|tx|txn|rlp|data|message|payload|calldata|code|initcode|extrinsic) (is )?too (large|big|long)\b`,
		`\b(code|initcode|init code|data|transaction|tx|txs|transactions?|calldata) size\b.*\b(exceed|limit|higher|larger|greater|maximum|above)`, `\bmax (\S+ )?(initcode|init code|code) size\b`,
		`\bblob limit exceeded\b`, `\btoo many (blobs|factory dependencies)\b`, `\bfield is greater than \d+ bytes\b`),
	kind(txn.Invalid, "a type of transaction that this chain does not have",
		`\b(transaction|tx) type\b`, `\btype (\S+ ){0,4}(not supported|unsupported|rejected|not allowed)\b`, `\b(unsupported|unknown|invalid) (transaction|tx)( type)?:? (type|envelope|format)\b`,
		`\b(access lists?|blob transactions?|set code|typed transactions?|eip-?(1559|2718|2930|4844|7702))\b.*\b(not|disabled|unsupported|doesnt|dont)\b`,
		`\bbefore the \S+ (hard ?)?fork\b`, `\bfork supporting\b`, `\bsupport for eth compatible\b`, `\bblob transactions? (are|is) not\b`, `\bnon empty blob\b`),
	kind(txn.Invalid, "no valid signature, or an account that may not send",
		`\b(invalid|bad|wrong|malformed|missing|incorrect) (\S+ ){0,3}(sender|signature|signer|v, r, s|s value|ecdsa)\b`, `\bsignature (\S+ ){0,4}(invalid|failed|wrong|malformed|incorrect|error)\b`,
		`\b(failed|cannot|unable|could not|couldnt) (to )?(resolve|recover|verify|derive) (\S+ ){0,3}(sender|signer|signature|public key|address)\b`,
		`\bnot an? eoa\b`, `\bnon account\b`, `\beip-?3607\b`, `\bsender (is|has) (a |an )?(contract|code|deployed code)\b`, `\bbad (proof|signature)\b`),
	kind(txn.Invalid, "bytes that are not a transaction",
		`\brlp\b`, `\b(failed|cannot|could not|couldnt|cant|unable|error) (to )?(decode|decoding|deserialize|parse|unmarshal|serialize)\b`, `\bdecod(e|ing) (error|failed)\b`,
		`\binvalid (raw|hex|message format|argument|params?|parameters?|fee input|transaction params?|transaction data|transaction encoding)\b`, `\bmalformed\b`, `\btyped transaction too short\b`,
		`\b(empty|missing) (raw )?transaction( data)?\b`, `\btransaction data is empty\b`, `\btransaction hash is null\b`, `\bmissing value for required argument\b`).
		except(`\b(response|reply|answer|upstream)\b`),
	kind(txn.Invalid, "blobs or authorizations that do not fit the transaction",
		`\bsidecar\b`, `\bblobless\b`, `\bat least one blob\b`, `\bblob (versioned )?hash(es)?\b`, `\b(blob|kzg) (\S+ )?(proof|commitment)`, `\bkzg\b`, `\bproof version\b`, `\bnetwork wrapper\b`,
		`\bauthorization (list|tuple)\b`, `\bempty auth`, `\b(cannot|can not) (be used|have the form)\b.*\bcreate\b`, `\bof type create\b`),
	kind(txn.Invalid, "the chain has closed this door for every transaction of the kind",
		`\b(operation|create operation) is (not supported|disabled)\b`, `\bis deprecated\b`, `\breplay protected\b.*\ballowed\b`),

	kind(txn.Unauthorized, "this endpoint does not serve the method, the account or us; another one may",
		`\bunauthori[sz]ed\b`, `\bforbidden\b`, `(^|status |status code |http )40[13]\b`, `\bapi ?key\b`, `\b(access )?token\b.*\b(invalid|missing|expired|required)\b`, `\bauthenticat`,
		`\b(method|namespace)\b (\S+ ){0,4}(not|doesnt|isnt|disabled|unsupported|blocked)\b`, `\bunsupported method\b`, `\bmethod not\b`, `\bnot (allowed|permitted|authori[sz]ed|whitelisted)\b`,
		`\bpermission\b`, `\b(white|allow|black|deny|block) ?list(ed)?\b`, `\b(sender|account|address|ip|origin|request|recipient|tx|transaction) (\S+ ){0,3}(blocked|banned|denied|restricted|sanctioned)\b`,
		`\b(blocked|banned|sanctioned|denied) (\S+ )?(sender|tx|transaction|address|account)\b`, `\baccess denied\b`, `\bofac\b`, `\bread only\b`,
		`\b(not|does not|doesnt) (support|accept) (\S+ ){0,2}transactions\b`, `\btransactions not supported\b`, `\bno signer available\b`, `\bproject id\b`, `\b(tenant|account|project|key|plan) (is )?(disabled|suspended|inactive|expired)\b`),
	kind(txn.RateLimited, "asked to come again later", `\btry again (later|in \d)`, `\bretry (later|after)\b`, `\bback ?off\b`).except(`\binternal\b`, `\btransaction\b`),
}
