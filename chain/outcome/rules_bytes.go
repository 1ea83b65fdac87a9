package outcome

import "github.com/fencepost/fencepost/txn"

// serverPart matches the parts of a server that may fail to read or to support something.
const serverPart = `(locks?|traces?|tracers?|engine|database|db|storage|config|configuration|` +
	`connection|journal|snapshot|wal|cache|plugin|genesis)`

// bytesRules match texts about the bytes themselves.
var bytesRules = []rule{
	newRule(
		txn.WrongChain,
		"signed for another chain; before INVALID, because the endpoint needs to be "+
			"corrected, not the transaction",
		`\b(invalid|wrong|incorrect|unexpected|bad|mismatch(ed|ing)?|different|unsupported|`+
			`unknown|missing)_? (\S+ ){0,3}chain ?(id|tag)\b`,
		`\bchain ?(ids?|tag) (\S+ ){0,5}(mismatch|invalid|incorrect|wrong|(is )?not supported|`+
			`unsupported|not match|doesnt match|not allowed|required|is missing|differs?|`+
			`not equal)`,
		`\b(another|different|wrong|other) (chain|network)\b`,
		`\bnetwork ?id (mismatch|does not match|doesnt match)`,
		`\breplay protection (is )?required\b`,
		`\bincompatible eip-?155\b`,
		`\bchain ?id intrinsic\b`,
	),

	gasRule,
}

// gasRule matches texts about the gas limit.
var gasRule = newRule(
	txn.Invalid,
	"the gas limit is below the minimum of any execution, or above the limit of any block",
	`\bintrinsic\b`,
	`\bgas (limit |amount )?(is )?too (low|high|large|big|small|much)\b`,
	`\bfloor data gas\b`,
	`\bgas floor\b`,
	`\binsufficient gas\b`,
	`\bnot enough (\S+ )?gas\b`,
	`\bfield cannot be less than\b`,
	`\b(exceeds?|exceeded|above|beyond|greater than|higher than|over|larger than|`+
		`more than) `+fewWords+`(gas ?limit|gas cap|limit cap|gas allowance|maximum gas)\b`,
	`\bgas ?limit `+fewWords+`(exceed|too high|too large|beyond|greater|higher|above|over|`+
		`reached)`,
	`\bsupplied gas is beyond\b`,
	`\bgas (cap |limit )?exceeded\b`,
	`\bgas required exceeds\b`,
	`\bgas `+fewWords+`exceed(s|ed) (the )?(maximum|max|block|cap)\b`,
	`\bout of gas\b`,
	`\bcost exceeds current gas limit\b`,
	`\bcounters\b`,
	`\b(basic|minimal|minimum) (gas )?cost is above\b`,
	`\bline count `+fewWords+`above the limit\b`,
).
	// zkEVM nodes put the field before the word: "nonce intrinsic error" is not about gas.
	except(`\bper gas (is )?too low\b`,
		`\benough (\S+ )?gas (left )?in (the |this |current )*(block|pool)\b`,
		`\b(nonce|balance|chain ?id) intrinsic\b`)

// sizeRules follow priceRules: they classify bytes that no pool of the chain takes.
var sizeRules = []rule{
	newRule(txn.Invalid, "too large for any pool of this chain", `\boversized\b`,
		`\b(transaction|tx|txn|rlp|data|message|calldata|code|initcode|extrinsic|encoding|`+
			`size) (is )?too (large|big|long)\b`,
		`\b(code|initcode|init code|data|transaction|transactions|tx|txs|calldata|`+
			`encoded) (size|length)\b.*\b(exceed|limit|higher|larger|greater|maximum|above)`,
		`\bmax (\S+ )?(initcode|init code|code) size\b`,
		`\bcall ?data `+fewWords+`(greater|larger|longer|bigger) than\b`,
		`\b(data|transaction|tx|code|calldata) exceeds? (the )?(max|maximum|limit|size)\b`,
		`\bexceeds? (the )?max(imum)? (transaction|tx|data|code) size\b`, `\bblob limit exceeded\b`,
		`\btoo many (blobs|factory dependencies)\b`, `\bfield is greater than \d+ bytes\b`).
		except(`\b(response|reply|answer|payload|batch|header)\b`,
			`\brequest (entity|body|data|size)\b`),
	newRule(
		txn.TypeNotSupported,
		"a transaction type that the node or the chain does not support",
		`\b(transaction|tx) type\b`,
		`\bonly (\S+ ){0,3}(legacy|type[ -]?(0|0x0))\b`,
		`\b(legacy|type[ -]?(0|0x0)) (tx|txs|txns?|transactions?) only\b`,
		`\b(must|should|has to|needs to) be (a |of )?(legacy|type[ -]?(0|0x0))\b`,
		`\bnon legacy\b`,
		`\b(use|requires?|expected|expects) (a )?legacy (tx|transaction)`,
		`\b(dynamic fee|typed|type[ -]?(2|0x2)|access list|london|berlin) (tx|txs|txns?|`+
			`transactions?|envelopes?) `+fewWords+`(not|disabled|unsupported|rejected|dont|doesnt|`+
			`isnt|arent|unknown|cannot)\b`,
		`\b(not|doesnt|does not|dont|cannot|no) (support|accept|allow|enable|process|supports) `+
			`(\S+ ){0,2}(dynamic fee|typed|type[ -]?(2|0x2)|eip-?1559|eip-?2718|1559|london)\b`,
		`\b(max ?fee ?per ?gas|max ?priority ?fee ?per ?gas|dynamic fees?|eip-?1559) (\S+ ){0,4}`+
			`(not|isnt|arent|un)( |-)?(supported|enabled|activated?|allowed|available)\b`,
		`\brlp: expected (input )?list for types\.(txdata|transaction)\b`,
		`\btype (\S+ ){0,4}(not supported|unsupported|rejected|not allowed)\b`,
		`\b(unsupported|unknown|invalid) (transaction|tx)( type)?:? (type|envelope|format)\b`,
		`\bunsupported (\S+ ){0,3}(transactions?|envelope)\b`,
		`\b(access lists?|blob transactions?|set code|typed transactions?|eip-?(1559|2718|2930|`+
			`4844|7702))\b.*\b(not|disabled|unsupported|doesnt|dont)\b`,
		`\bbefore the \S+ (hard ?)?fork\b`,
		`\bfork supporting\b`,
		`\bsupport for eth compatible\b`,
		`\bblob (transactions?|txs?) (are |is )?not\b`,
		`\bnon empty blob\b`,
		`: cannot be set$`,
	).
		// Servers report unsupported types of their own.
		except(`\btypes? of (a |an |the )?`+serverPart+`\b`, `\b`+serverPart+` types?\b`,
			`\bconflict`),
	newRule(
		txn.Invalid,
		"no valid signature, or an account that cannot send",
		`\b(invalid|bad|wrong|malformed|missing|incorrect|zero|no) (\S+ ){0,3}(sender|`+
			`signature|signer|fee payer|v, r, s|s value|ecdsa)\b`,
		`\bsignature (\S+ ){0,4}(invalid|failed|wrong|malformed|incorrect|error)\b`,
		`\binvalid [vrs]( value)?\b`,
		`\bunsupported (\S+ ){0,3}signature\b`,
		`\b(is |was )?not signed\b`,
		`\bunsigned transaction\b`,
		`\bunprotected `+fewWords+`transaction\b`,
		`\bintended signer does not match\b`,
		`\b(failed|cannot|unable|could not|couldnt) (to )?(resolve|recover|verify|`+
			`derive) (\S+ ){0,3}(sender|signer|signature|public key|address)\b`,
		`\bnot an? eoa\b`,
		`\bnon account\b`,
		`\beip-?3607\b`,
		`\b(sender|signer) (is|has) (a |an )?(contract|code|deployed code|bytecode)\b`,
		`\bbad (proof|signature)\b`,
	).
		// A provider may require a signature on the request.
		except(`\b(jwt|header|api|webhook|bearer|token)\b`, `\brequest signature\b`),
	newRule(txn.Invalid, "the bytes are not a transaction", `\brlp\b`,
		`\b(failed|cannot|could not|couldnt|cant|unable|error) (to )?(decode|decoding|`+
			`deserialize|parse|unmarshal|serialize)\b`,
		`\bdecod(e|ing) (error|failed)\b`,
		`\binvalid (raw|hex|message format|fee input|transaction params?|transaction data|`+
			`transaction encoding|transaction format)\b`,
		`\bmalform(ed)?\b`, `\btyped transaction too short\b`,
		`\b(empty|missing) (raw |typed |signed )*transaction( data)?\b`,
		`\btransaction data is empty\b`, `\btransaction hash is null\b`, `\btx parse error\b`).
		except(`\b(response|reply|answer|upstream|backend|body|json|block|header|receipt|result)\b`,
			`\b`+serverPart+`\b`, `\b(malformed|parse|decode) (the )?request\b`,
			`\bgo (struct|value)\b`),
	newRule(txn.Invalid, "the node could not read the argument with the bytes",
		`\binvalid argument \d\b`, `\bmissing value for required argument\b`),
	newRule(txn.Invalid, "blobs or authorizations that do not match the transaction", `\bsidecar\b`,
		`\bblobless\b`, `\binvalid (\S+ ){0,2}blobs?\b`, `\bat least one blob\b`,
		`\bblob (versioned )?hash(es)?\b`, `\bblob data\b`,
		`\b(blob|kzg) (\S+ )?(proof|commitment)`, `\bcommitment hash\b`, `\bkzg\b`,
		`\bproof version\b`, `\bnetwork wrapper\b`, `\bblob \S+ gas limit\b`,
		`\bauthorization list\b`, `\bauthorization tuple\b`, `\bempty auth`,
		`\b(cannot|can not) (be used|have the form)\b.*\bcreate\b`, `\bof type create\b`,
		`\bcreate transaction: to must\b`),
	newRule(txn.Invalid, "the chain rejects every transaction of this kind",
		`\b(operation|create operation) is (not supported|disabled)\b`,
		`\b(fee|field|transaction) (\S+ )?is deprecated\b`, `\breplay protected\b.*\ballowed\b`,
		`\bis a precompile\b`).
		except(`\b(plan|tier|subscription|api|` + anyServerWord + `)\b`),
}

// accessRules match texts about access, and requests to retry later.
var accessRules = []rule{
	newRule(
		txn.Unauthorized,
		"the endpoint does not serve this method, account or client; another one may",
		`\bunauthori[sz]ed\b`,
		`\bforbidden\b`,
		`(^|status |status code |http )40[13]\b`,
		`\bapi ?key\b`,
		`\binvalid (\S+ )?(token|credentials|key)\b`,
		`\baccess key\b`,
		`\b(access )?token\b.*\b(invalid|missing|expired|required|revoked|disabled|inactive|`+
			`not active)\b`,
		`\bauthenticat`,
		`\bjwt\b`,
		`\b(method|namespace|endpoint|module)\b (\S+ ){0,7}(not|doesnt|isnt|disabled|`+
			`unsupported|blocked|deprecated)\b`,
		`\bunsupported (\S+ ){0,2}method\b`,
		`\bmethod not\b`,
		`\b(not|doesnt) support (\S+ ){0,3}method\b`,
		`\bnot in (\S+ ){0,3}scope\b`,
		`\b(illegal|invalid) ip\b`,
		`\bnot (allowed|permitted|authori[sz]ed|whitelisted)\b`,
		`\b(dont|does not|doesnt|do not) have access\b`,
		`\bpermission\b`,
		`\b(white|allow|black|deny|block) ?list(ed)?\b`,
		`\bprohibited list\b`,
		`\b(sender|account|address|ip|origin|request|recipient|tx|transaction|`+
			`you) (\S+ ){0,3}(blocked|banned|denied|restricted|sanctioned)\b`,
		`\b(blocked|banned|sanctioned|denied) (\S+ )?(sender|tx|transaction|address|account)\b`,
		`\baccess denied\b`,
		`\bofac\b`,
		`\bread only\b`,
		`\boperation is (not supported|disabled)\b`,
		`\brequest signature\b`,
		`\b(not|does not|doesnt) (support|accept) (\S+ ){0,2}transactions\b`,
		`\btransactions not supported\b`,
		`\bno signer available\b`,
		`\bproject id\b`,
		`\bnot (included|available|supported) (in|on|by|with) (your|the|this) (\S+ )?plan\b`,
		`\bplan (does not|doesnt) (include|support|allow)\b`,
		`\b(tenant|account|project|key|plan|app|subscription) (is |has been |has )?(disabled|`+
			`suspended|inactive|expired|not found|not active)\b`,
	),
	newRule(txn.RateLimited, "a request to retry later", `\btry again (later|in \d)`,
		`\bretry (later|after)\b`, `\bback ?off\b`).except(
		`\binternal\b`,
		`\btransaction\b`,
		`\btemporary error\b`,
	),
}
