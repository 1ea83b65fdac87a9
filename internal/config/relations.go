package config

import (
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holiman/uint256"
)

// relation is a condition on several keys.
type relation struct {
	text  string
	check func(r *reader, c *Config)
}

// relations lists the conditions, as text and as code. Each is checked only if the keys are valid
// by themselves.
func relations() []relation {
	return []relation{
		{
			"lease.renew_interval is at most a third of lease.duration, so that two renewals " +
				"may fail before a lease expires.",
			relateLease,
		},
		{
			"database.statement_timeout is less than a third of lease.duration, so that a " +
				"hanging statement does not delay a takeover.",
			relateStatementTimeout,
		},
		{
			"lease.progress_timeout is more than lease.duration. An owner cancels its pending " +
				"calls after four fifths of it, before the owner counts as stuck. That time " +
				"covers at least one chain query and one signature: chains.*.rpc_timeout once " +
				"per URL in chains.*.rpc, at most 3 times, plus the longest signers.*.timeout.",
			relateProgress,
		},
		{"grpc.listen and ops.listen differ.", relateListeners},
		{
			"grpc.tls.cert_file and grpc.tls.key_file go together, and grpc.tls.client_ca_file " +
				"needs them.",
			relateTLS,
		},
		{
			"grpc.tokens_file and callers.*.tokens_file require grpc.tls.cert_file, unless " +
				"grpc.listen is a loopback address, where a proxy on the same machine may " +
				"terminate TLS.",
			relateTokens,
		},
		{
			"A caller has callers.*.tokens_file, callers.*.certificates or both, and " +
				"callers.*.submitters, callers.*.pools or both. " +
				"callers.*.certificates requires grpc.tls.client_ca_file. grpc.tokens_file and " +
				"callers exclude each other.",
			relateCallers,
		},
		{
			"No two callers without callers.*.tokens_file share a name in callers.*.certificates.",
			relateCertificates,
		},
		{"watch.min_gap is at most watch.poll_interval.", relateWatch},
		{"queue.max_per_submitter is at most queue.max_total, unless that is 0.", relateQueues},
		{
			"grpc.max_connections_per_address is at most grpc.max_connections, unless that is " +
				"auto.",
			relateConnections,
		},
		{"chains.*.release_depth is at most chains.*.confirmations, or final.", relateDepths},
		{
			"chains.*.finality.audit_depth is 0 or at least chains.*.confirmations.",
			relateAuditDepth,
		},
		{
			"chains.*.fees.min_tip_gwei and chains.*.fees.min_price_gwei are at most " +
				"chains.*.fees.max_fee_cap_gwei, unless that is 0.",
			relateFees,
		},
		{
			"chains.*.gas_bump.max_fee_cap_gwei is at least chains.*.fees.max_fee_cap_gwei, " +
				"unless one of them is 0. Otherwise a transaction sent at the fees cap could " +
				"be neither replaced nor cancelled.",
			relateCaps,
		},
		{
			"chains.*.fees.slow_percentile, chains.*.fees.percentile and " +
				"chains.*.fees.fast_percentile are in ascending order, except those that are 0.",
			relateSpeeds,
		},
		{"No two chains have the same chain_id.", relateChainIDs},
		{"No endpoint is listed twice in chains.*.rpc.", relateEndpoints},
		{"The chain and the signer of a submitter are defined in chains and signers, and its " +
			"max_in_flight is at most 1 unless its mode is pipelined or external.",
			relateSubmitters},
		{
			"No two submitters have the same chain and address: an account has one sequence of " +
				"nonces.",
			relateAccounts,
		},
		{
			"ledgers replaces database.url, database.url_file and database.schema; two or more " +
				"need directory.url. submitters.*.ledger is a name in ledgers.",
			relateLedgers,
		},
		{
			"chains.*.balance.top_ups.*.to is above below, and max_per_day is at least the " +
				"difference. No treasury tops itself up, directly or through others.",
			relateTopUps,
		},
		{
			"A signer has exactly one of the groups keystore, service, web3signer, clef, " +
				"aws_kms, gcp_kms, azure_keyvault and pkcs11. All but keystore require " +
				"signers.*.keys_file.",
			relateSigners,
		},
		{
			"signers.*.*.cert_file and signers.*.*.key_file go together.",
			relateSignerTLS,
		},
		{
			"tracing.headers and tracing.headers_file exclude each other; tracing.cert_file and " +
				"tracing.key_file go together. All of them, and tracing.ca_file, require " +
				"tracing.endpoint with https; headers may also go to a loopback address.",
			relateTracing,
		},
		{
			"intents.require needs intents.key_file.",
			relateIntents,
		},
		{
			"callers.*.jwt names issuers of the list.",
			relateIssuers,
		},
		{
			"A sink has the settings that its kind needs: sinks.*.webhook.url and " +
				"secrets_file; sinks.*.kafka.brokers and topic; sinks.*.nats.servers, subject " +
				"and stream. SASL needs username and password_file, and PLAIN also tls. " +
				"sinks.*.retry.min is at most sinks.*.retry.max.",
			relateSinks,
		},
		{
			"Unless insecure is true: grpc.listen is a loopback address or callers " +
				"authenticate; grpc.allowed_origins has no \"*\" unless they do; database.url " +
				"does not allow an unencrypted connection to another machine; and other users " +
				"of the machine can write neither to signers.*.keystore.dir nor to the " +
				"configuration file; and a signer on another machine has an https URL.",
			relateRisks,
		},
	}
}

func (r *reader) relate(c *Config) {
	for _, relation := range relations() {
		relation.check(r, c)
	}
}

// good reports whether all keys are valid.
func (r *reader) good(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return r.bad[key] })
}

// broken reports a relation at the later written of its keys.
func (r *reader) broken(key, other, remedy, what string, args ...any) {
	key = r.later(key, other)
	r.problem(r.origins[key], key, fmt.Sprintf(what, args...), remedy)
}

// later returns the key that was written last: it is the one to fix.
func (r *reader) later(key, other string) string {
	if a, b := r.origins[key], r.origins[other]; b.Layer > a.Layer ||
		b.Layer == a.Layer && b.Line > a.Line {
		return other
	}
	return key
}

func relateLease(r *reader, c *Config) {
	const renew, duration = "lease.renew_interval", "lease.duration"
	if r.good(renew, duration) && 3*c.Lease.RenewInterval > c.Lease.Duration {
		r.broken(
			renew,
			duration,
			fmt.Sprintf("renew at least every %s, or make the lease at least %s long",
				short(rounded(c.Lease.Duration/3)), short(3*c.Lease.RenewInterval)),
			"a lease of %s renewed every %s expires after two failed renewals",
			short(c.Lease.Duration),
			short(c.Lease.RenewInterval),
		)
	}
}

func relateQueues(r *reader, c *Config) {
	const each, all = "queue.max_per_submitter", "queue.max_total"
	if q := c.Queue; r.good(each, all) && q.MaxTotal > 0 && q.MaxPerSubmitter > q.MaxTotal {
		r.broken(each, all,
			fmt.Sprintf("set max_per_submitter to at most %d, or raise max_total", q.MaxTotal),
			"the limit per account (%d) is above the limit in all (%d)",
			q.MaxPerSubmitter, q.MaxTotal)
	}
}

func relateConnections(r *reader, c *Config) {
	const each, all = "grpc.max_connections_per_address", "grpc.max_connections"
	g := c.GRPC
	if r.good(each, all) && g.MaxConnections > 0 && g.MaxPerAddress > g.MaxConnections {
		r.broken(each, all,
			fmt.Sprintf("set max_connections_per_address to at most %d", g.MaxConnections),
			"the limit per address (%d) is above the limit in all (%d)",
			g.MaxPerAddress, g.MaxConnections)
	}
}

func relateStatementTimeout(r *reader, c *Config) {
	const timeout, duration = "database.statement_timeout", "lease.duration"
	if r.good(timeout, duration) && 3*c.Database.StatementTimeout >= c.Lease.Duration {
		r.broken(
			timeout,
			duration,
			fmt.Sprintf(
				"set database.statement_timeout below %s, or lease.duration above %s",
				short(rounded(c.Lease.Duration/3)), short(3*c.Database.StatementTimeout)),
			"a statement that hangs for %s delays the takeover of a lease of %s",
			short(c.Database.StatementTimeout),
			short(c.Lease.Duration),
		)
	}
}

// rounded truncates a duration to three or four significant digits.
func rounded(d time.Duration) time.Duration {
	for unit := time.Second; unit >= time.Microsecond; unit /= 10 {
		if d >= 100*unit {
			return d.Truncate(unit)
		}
	}
	return d
}

// callsInARound is how many calls one chain query may make in a row: chain.Client starts no further
// call once two timeouts have passed. A step may run several queries; the engine cancels all of
// them after four fifths of the progress timeout.
const callsInARound = 3

func relateProgress(r *reader, c *Config) {
	const progress, duration = "lease.progress_timeout", "lease.duration"
	if !r.good(progress) {
		return
	}
	limit := c.Lease.ProgressTimeout
	if d := c.Lease.Duration; r.good(duration) && d >= limit {
		r.broken(progress, duration, fmt.Sprintf("set progress_timeout above %s", short(d)),
			"an owner counts as stuck after %s, within a lease of %s", short(limit), short(d))
	}
	signature, slowest := r.slowestSigner(c)
	for i, path := range r.elementPaths["chains"] {
		if !r.good(path+".rpc", path+".rpc_timeout") {
			continue
		}
		chain := c.Chains[i]
		calls := min(len(chain.RPC), callsInARound)
		round, patience := time.Duration(calls)*chain.RPCTimeout+signature, limit/5*4
		if round > patience {
			r.broken(
				progress,
				r.later(path+".rpc_timeout", slowest),
				fmt.Sprintf("set progress_timeout to at least %s, or shorten the timeouts",
					short((round*5+3)/4)),
				"an owner cancels its calls after %s, but a chain query and a signature may "+
					"take %s: %d times rpc_timeout (%s) and a signature (%s)",
				short(patience),
				short(round),
				calls,
				short(chain.RPCTimeout),
				short(signature),
			)
		}
	}
}

// slowestSigner returns the longest signer timeout and its key.
func (r *reader) slowestSigner(c *Config) (limit time.Duration, key string) {
	for i, path := range r.elementPaths["signers"] {
		if of := path + ".timeout"; r.good(of) && c.Signers[i].Timeout > limit {
			limit, key = c.Signers[i].Timeout, of
		}
	}
	return limit, key
}

func relateListeners(r *reader, c *Config) {
	const grpc, ops = "grpc.listen", "ops.listen"
	if r.good(grpc, ops) && c.GRPC.Listen == c.Ops.Listen && !anyPort(c.GRPC.Listen) {
		r.broken(grpc, ops, "use different ports",
			"grpc.listen and ops.listen are both %s", c.Ops.Listen)
	}
}

func relateTLS(r *reader, c *Config) {
	const cert, key = "grpc.tls.cert_file", "grpc.tls.key_file"
	const clients = "grpc.tls.client_ca_file"
	if !r.good(cert, key, clients) {
		return
	}
	switch t := c.GRPC.TLS; {
	case (t.CertFile == "") != (t.KeyFile == ""):
		r.broken(cert, key, "set both cert_file and key_file, or neither",
			"a certificate and its key are needed together")
	case t.ClientCAFile != "" && t.CertFile == "":
		r.broken(clients, cert, "set cert_file and key_file too",
			"clients present certificates only over TLS")
	}
}

func relateTokens(r *reader, c *Config) {
	const tokens, cert = "grpc.tokens_file", "grpc.tls.cert_file"
	const listen = "grpc.listen"
	files := map[string]string{tokens: c.GRPC.TokensFile}
	for i, path := range r.elementPaths["callers"] {
		files[path+".tokens_file"] = c.Callers[i].TokensFile
	}
	for _, key := range sortedKeys(files) {
		if r.good(key, cert, listen) && files[key] != "" && c.GRPC.TLS.CertFile == "" &&
			!c.GRPC.Loopback() {
			r.broken(key, listen,
				"set grpc.tls.cert_file and grpc.tls.key_file, or listen on 127.0.0.1 behind a "+
					"TLS proxy",
				"tokens would be sent over the network in plain text")
		}
	}
}

func relateCallers(r *reader, c *Config) {
	const tokens, clients = "grpc.tokens_file", "grpc.tls.client_ca_file"
	for i, path := range r.elementPaths["callers"] {
		caller := c.Callers[i]
		file := path + ".tokens_file"
		certificates := path + ".certificates"
		if !r.good(file, certificates) {
			continue
		}
		if caller.TokensFile == "" && len(caller.Certificates) == 0 && len(caller.JWT) == 0 {
			r.problem(r.origins[path+".name"], path,
				"the caller has no credentials",
				"set its tokens_file, jwt or certificates")
		}
		if len(caller.Submitters) == 0 && len(caller.Pools) == 0 &&
			r.good(path+".submitters", path+".pools") {
			r.problem(r.origins[path+".name"], path, "the caller has no rights",
				"set its submitters or pools")
		}
		if len(caller.Certificates) > 0 && c.GRPC.TLS.ClientCAFile == "" && r.good(clients) {
			r.problem(r.origins[certificates], certificates,
				"client certificates are not requested", "set grpc.tls.client_ca_file too")
		}
	}
	if len(c.Callers) > 0 && r.good(tokens) && c.GRPC.TokensFile != "" {
		r.problem(r.origins[tokens], tokens, "it cannot be combined with callers",
			"move its tokens into the tokens_file of a caller, and delete this line")
	}
}

func relateCertificates(r *reader, c *Config) {
	first := map[string]string{}
	for i, path := range r.elementPaths["callers"] {
		if c.Callers[i].TokensFile != "" || !r.good(path+".certificates", path+".tokens_file") {
			continue
		}
		for _, name := range c.Callers[i].Certificates {
			if other, twice := first[name]; twice && other != path {
				r.problem(r.origins[path+".certificates"], path+".certificates",
					fmt.Sprintf("%s also belongs to %s", name, other),
					"use a different certificate name for each caller")
			}
			first[name] = path
		}
	}
}

// Loopback reports whether only this machine can reach the listener.
func (g GRPC) Loopback() bool {
	host, _, err := net.SplitHostPort(g.Listen)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

func relateWatch(r *reader, c *Config) {
	const gap, poll = "watch.min_gap", "watch.poll_interval"
	if r.good(gap, poll) && c.Watch.MinGap > c.Watch.PollInterval {
		r.broken(gap, poll, "lower min_gap, or raise poll_interval",
			"the feed cannot be read every %s with a gap of %s between reads",
			short(c.Watch.PollInterval), short(c.Watch.MinGap))
	}
}

func relateDepths(r *reader, c *Config) {
	for i, path := range r.elementPaths["chains"] {
		depth, confirmations := path+".release_depth", path+".confirmations"
		if chain := c.Chains[i]; r.good(depth, confirmations) &&
			chain.ReleaseDepth > chain.Confirmations {
			r.broken(depth, confirmations,
				fmt.Sprintf("set release_depth to 1 to %d", chain.Confirmations),
				"the nonce is released at depth %d, after the transaction is final at %d",
				chain.ReleaseDepth, chain.Confirmations)
		}
	}
}

func relateAuditDepth(r *reader, c *Config) {
	for i, path := range r.elementPaths["chains"] {
		depth, confirmations := path+".finality.audit_depth", path+".confirmations"
		if chain := c.Chains[i]; r.good(depth, confirmations) && chain.Finality.AuditDepth != 0 &&
			chain.Finality.AuditDepth < chain.Confirmations {
			r.broken(depth, confirmations,
				fmt.Sprintf("set it to 0, or at least %d", chain.Confirmations),
				"reorgs are considered impossible at depth %d, before a transaction is final at %d",
				chain.Finality.AuditDepth, chain.Confirmations)
		}
	}
}

func relateFees(r *reader, c *Config) {
	for i, path := range r.elementPaths["chains"] {
		tip, most := path+".fees.min_tip_gwei", path+".fees.max_fee_cap_gwei"
		if fees := c.Chains[i].Fees; !fees.MaxFeeCap.IsZero() && fees.MinTip.Gt(&fees.MaxFeeCap) {
			r.broken(tip, most, "lower min_tip_gwei, or raise max_fee_cap_gwei",
				"the minimum tip is above the fee cap")
		}
		price := path + ".fees.min_price_gwei"
		if fees := c.Chains[i].Fees; r.good(price, most) && !fees.MaxFeeCap.IsZero() &&
			fees.MinPrice.Gt(&fees.MaxFeeCap) {
			r.broken(price, most, "lower min_price_gwei, or raise max_fee_cap_gwei",
				"the minimum price is above the fee cap")
		}
	}
}

func relateCaps(r *reader, c *Config) {
	for i, path := range r.elementPaths["chains"] {
		bump, fee := path+".gas_bump.max_fee_cap_gwei", path+".fees.max_fee_cap_gwei"
		first, later := c.Chains[i].Fees.MaxFeeCap, c.Chains[i].GasBump.MaxFeeCap
		if r.good(bump, fee) && !first.IsZero() && !later.IsZero() && later.Lt(&first) {
			r.broken(
				bump,
				fee,
				"raise gas_bump.max_fee_cap_gwei to "+inGwei(
					first)+" or more, or lower fees.max_fee_cap_gwei",
				"a transaction sent at the fees cap of %s gwei cannot be replaced or cancelled "+
					"with at most %s gwei",
				inGwei(first),
				inGwei(later),
			)
		}
	}
}

// inGwei formats an amount as in the configuration.
func inGwei(wei uint256.Int) string {
	text := new(big.Rat).SetFrac(wei.ToBig(), big.NewInt(1e9)).FloatString(9)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func relateSpeeds(r *reader, c *Config) {
	for i, path := range r.elementPaths["chains"] {
		slow := path + ".fees.slow_percentile"
		standard := path + ".fees.percentile"
		fast := path + ".fees.fast_percentile"
		fees := c.Chains[i].Fees
		if r.good(slow, standard) && fees.SlowPercentile > fees.Percentile {
			r.broken(slow, standard, "lower slow_percentile, or raise percentile",
				"the slow speed would pay more than the standard speed")
		}
		if r.good(standard, fast) && fees.FastPercentile != 0 &&
			fees.FastPercentile < fees.Percentile {
			r.broken(fast, standard, "raise fast_percentile, or lower percentile",
				"the fast speed would pay less than the standard speed")
		}
	}
}

func relateChainIDs(r *reader, c *Config) {
	first := map[uint64]string{}
	for i, path := range r.elementPaths["chains"] {
		key := path + ".chain_id"
		if c.Chains[i].ChainID == 0 { // could not be read
			continue
		}
		if other, twice := first[c.Chains[i].ChainID]; twice {
			r.broken(key, other, "list all endpoints of a chain in the rpc of one entry",
				"chain id %d is also used by %s", c.Chains[i].ChainID, other)
			continue
		}
		first[c.Chains[i].ChainID] = key
	}
}

func relateEndpoints(r *reader, c *Config) {
	for i, path := range r.elementPaths["chains"] {
		seen := map[Secret]bool{}
		for j, endpoint := range c.Chains[i].RPC {
			if seen[endpoint] {
				r.problem(r.origins[path+".rpc"], fmt.Sprintf("%s.rpc[%d]", path, j),
					"duplicate endpoint",
					"delete it; a duplicate adds no redundancy")
			}
			seen[endpoint] = true
		}
	}
}

func relateSubmitters(r *reader, c *Config) {
	chains, signers := map[string]bool{}, map[string]bool{}
	for _, chain := range c.Chains {
		chains[chain.Name] = true
	}
	for _, signer := range c.Signers {
		signers[signer.Name] = true
	}
	known := func(key, name, what string, names map[string]bool) {
		if names[name] || !r.good(key) || name == "" {
			return
		}
		all := slices.Sorted(maps.Keys(names))
		remedy := fmt.Sprintf("add it to %ss, or choose one of %q", what, all)
		if meant := nearest(name, all); meant != "" {
			remedy = fmt.Sprintf("did you mean %q?", meant)
		} else if len(all) == 0 {
			remedy = fmt.Sprintf("add it to %ss, which is empty", what)
		}
		r.problem(r.origins[key], key, fmt.Sprintf("unknown %s %q", what, name), remedy)
	}
	for i, path := range r.elementPaths["submitters"] {
		known(path+".chain", c.Submitters[i].Chain, "chain", chains)
		known(path+".signer", c.Submitters[i].Signer, "signer", signers)
		if s := c.Submitters[i]; r.good(path+".mode", path+".max_in_flight") &&
			s.Mode != "pipelined" && s.Mode != "external" && s.MaxInFlight > 1 {
			key := path + ".max_in_flight"
			r.problem(r.origins[key], key,
				fmt.Sprintf("%d is above 1, the limit of mode strict", s.MaxInFlight),
				"set mode to pipelined, or remove max_in_flight")
		}
	}
}

func relateAccounts(r *reader, c *Config) {
	type account struct{ chain, address string }
	first := map[account]string{}
	for i, path := range r.elementPaths["submitters"] {
		s := c.Submitters[i]
		if !r.good(path+".chain", path+".address") {
			continue
		}
		is := account{s.Chain, s.Address.Hex()}
		if other, twice := first[is]; twice {
			r.problem(r.origins[path+".address"], path+".address",
				"the account also belongs to "+other+" as well",
				"use one submitter per account, because an account has one nonce sequence")
			continue
		}
		first[is] = path
	}
}
