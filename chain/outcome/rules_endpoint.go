package outcome

import "github.com/fencepost/fencepost/txn"

// serverWord matches the kinds of server behind an address.
const serverWord = `(backends?|upstreams?|providers?|nodes?|peers?|endpoints?|servers?|` +
	`sequencers?|leaders?|validators?|replicas?)`

// endpointRules match texts about the endpoint.
var endpointRules = []rule{
	newRule(
		txn.Unavailable,
		"the call did not reach a node, or the endpoint cannot serve; before INVALID, "+
			"because gateways quote the failed operation",
		`\bdial (tcp|udp|unix|error)\b`,
		`\bconnection refused\b`,
		`\beconnrefused\b`,
		`\bno such host\b`,
		`\b(enotfound|eai again)\b`,
		`\bnetwork is unreachable\b`,
		`\bno route to host\b`,
		`\b(ehostunreach|enetunreach)\b`,
		`\borigin is unreachable\b`,
		`\bweb server is down\b`,
		`\bssl handshake failed\b`,
		`\bx509\b`,
		`\btls: handshake\b`,
		`\bshut(ting)? ?down\b`,
		`\b(pool|node|server|service) (\S+ ){0,2}(terminated|stopped|stopping|closed)\b`,
		`\bnot ready\b`,
		`\bnot (yet )?(started|initiali[sz]ed|synced|synchroni[sz]ed|in sync)\b`,
		`\b(starting|warming) up\b`,
		`\b(re)?sync(ing|hroni[sz]ing)\b`,
		`\bsync (is )?(still )?in progress\b`,
		`\bgive sync\b`,
		`\bcatch(ing)? up\b`,
		`\bout of sync\b`,
		`\b(node|backend|state|chain) is (lagging|behind)\b`,
		`\b(header|block|state|head) (is |was )?not (found|available)\b`,
		`\bindexing is in progress\b`,
		`\bmissing trie node\b`,
		`\b(tx ?pool|transaction pool|pool) (is )?(not enabled|disabled|unavailable)\b`,
		`\b(service|nodes?|backends?|servers?|upstreams?|sequencer|leader|resource|world state|`+
			`state|network|rpc|api|chain) (\S+ ){0,3}(unavailable|unreachable|offline|`+
			`unhealthy|overloaded|busy|down|paused|halted|starting|`+
			`not available|not healthy)\b`,
		`\b(could not|cannot|cant|failed to|unable to) (connect|route|forward your|fulfil+)\b`,
		`\bupstreams? (\S+ ){0,3}(unhealthy|unavailable)\b`,
		`\bno (\S+ ){0,3}`+serverWord+`\b`,
		`\bnot connected to\b`,
		`\bnot accepting (\S+ ){0,2}(transactions|requests|connections)\b`,
		`\bbad gateway\b`,
		`\bmaintenance\b`,
		`\btemporar(y|ily) (unavailable|failure|error)\b`,
		`\b(currently|temporarily) (unavailable|not available|disabled)\b`,
		`\boverloaded\b`,
		`\btoo much load\b`,
		`\bis busy\b`,
		`\b50[23] (service|bad|server|backend)\b`,
		`\bnot enough gas power\b`,
		`\bcircuit (breaker )?(is )?open\b`,
		`\btoo many open files\b`,
		`\bno space left\b`,
		`\bring ?balancer\b`,
	),
	newRule(txn.Ambiguous,
		"the request was sent and no response arrived: the transaction may have been accepted",
		`\btime ?d? ?out\b`, `\btimeout\b`, `\bdeadline exceeded\b`,
		`\b(context|request|operation|call) (was )?cancell?ed\b`, `\beof\b`,
		`\bconnection (was )?(reset|closed|lost|aborted|terminat\S+)\b`, `\bbroken pipe\b`,
		`\b(econnreset|etimedout|epipe|econnaborted)\b`, `\bsocket hang up\b`, `\bgoaway\b`,
		`\bdisconnected\b`, `\bchannel closed\b`, `\bclosed (network |the )?connection\b`,
		`\b(request|response|reply) (body )?(was )?(lost|dropped)\b`, `\btime out too long\b`,
		`\b(invalid|malformed|bad|unexpected|empty|unknown|wrong) (json ?rpc )?(response|reply|`+
			`answer)\b`,
		`\b(response|reply|answer) (\S+ ){0,2}(too (large|big)|exceeds?)\b`,
		`\b50[04] (internal|gateway)\b`, `\b(from|by) (the )?(upstream|backend)\b`,
		`\b(all|every) (upstream|provider|backend)s? (\S+ )?fail(ed|ure)\b`),
}
