package config

import (
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

// schema is the table of all keys: name, kind, default, description, and the field that each fills.
// Sections and keys are in the order of the reference.
func schema() []field[Config] {
	return []field[Config]{
		section(
			"node",
			"This process.",
			func(c *Config) *Node { return &c.Node },
			value(
				"name",
				matching(
					`1 to 63 of letters, digits, "-", "_" and ".", starting with a letter or digit`,
					`[A-Za-z0-9][A-Za-z0-9._-]{0,62}`),
				"",
				"The owner name that other nodes and operators see. Each process also gets a "+
					"unique id, so two nodes with the same name are confusing but safe.",
				func(n *Node) *string { return &n.Name },
			).must(),
		),
		section(
			"grpc",
			"The API listener.",
			func(c *Config) *GRPC { return &c.GRPC },
			grpcFields()...),
		list(
			"callers",
			"The clients that may call the API, each with its own rights. The list and the "+
				"files that it names are reloaded when they change; adding the first caller, or "+
				"removing the last one, needs a restart. If it is empty, every client that "+
				"grpc.tls.client_ca_file and grpc.tokens_file admit has full access.",
			func(c *Config) *[]Caller { return &c.Callers },
			callerFields()...),
		intentsSection(),
		issuerSection(),
		section(
			"ops",
			"The HTTP listener for operators: /metrics, /healthz, /readyz, /chains.",
			func(c *Config) *Ops { return &c.Ops },
			value("listen", listener(), "127.0.0.1:9091", "Address to listen on.",
				func(o *Ops) *string { return &o.Listen }),
			values("allowed_hosts", hostName(),
				"Further host names that clients may use for this listener, as in "+
					"grpc.allowed_hosts.",
				func(o *Ops) *[]string { return &o.AllowedHosts }),
		),
		section("console", "The web console for operators.",
			func(c *Config) *Console { return &c.Console }, consoleFields()...),
		section("nonce_api", "Nonces for clients that sign themselves: see docs/external.md.",
			func(c *Config) *NonceAPI { return &c.NonceAPI }, nonceFields()...),
		section(
			"database",
			"The PostgreSQL database that holds the ledger.",
			func(c *Config) *Database { return &c.Database },
			databaseFields()...),
		directorySection(),
		ledgersSection(),
		section(
			"lease",
			"How nodes share the submitters. Each submitter is owned by one node at a time, by "+
				"a lease.",
			func(c *Config) *Lease { return &c.Lease },
			leaseFields()...),
		section(
			"audit",
			"The periodic check of the ledger against its invariants and the chain.",
			func(c *Config) *Audit { return &c.Audit },
			value(
				"interval",
				orZero(span(time.Second, 24*time.Hour)),
				"1m",
				"Time between two audits of each submitter that this node owns. A violation is "+
					"counted and logged, and the submitter is put under PROTECT. 0: no audits.",
				func(a *Audit) *time.Duration { return &a.Interval },
			),
		),
		section("retention", "How long the ledger keeps data of final transactions.",
			func(c *Config) *Retention { return &c.Retention }, retentionFields()...),
		section(
			"queue",
			"How owners notice new work in the ledger, and how many transactions may be queued "+
				"there. The node that receives a call applies its own limits, so configure all "+
				"nodes alike. Nodes count periodically rather than on each call: with N nodes "+
				"running, a queue exceeds its limit by at most (N-1)/16 of it, or by "+
				"(N-1)*1024 if that is more, and never exceeds N times the limit. A node that "+
				"restarts between two counts counts as one more.",
			func(c *Config) *Queue { return &c.Queue },
			value("poll_interval", span(10*time.Millisecond, time.Minute), "1s",
				"Time between two polls of the queues and commands of the submitters that this "+
					"node owns.",
				func(q *Queue) *time.Duration { return &q.PollInterval }),
			value("max_per_submitter", orZero(whole(1, 1_000_000_000)), "100000",
				"The most transactions queued for one account. Above it CreateTx returns "+
					"RESOURCE_EXHAUSTED (QUEUE_FULL) with a retry delay. 0: no limit.",
				func(q *Queue) *int { return &q.MaxPerSubmitter }),
			value("max_total", orZero(whole(1, 1_000_000_000)), "1000000",
				"The most transactions queued in the ledger in all. The queue of one account may "+
					"hold at most seven times the free room, so that others find some. 0: no "+
					"limit.",
				func(q *Queue) *int { return &q.MaxTotal }),
		),
		section(
			"commands",
			"How calls that send a command to the owner of a submitter (pause, resume, update, "+
				"protect, exit, resolve, speed up) wait for the result.",
			func(c *Config) *Commands { return &c.Commands },
			value("wait", span(time.Second, 10*time.Minute), "30s",
				"The longest wait. The command stays recorded afterwards.",
				func(s *Commands) *time.Duration { return &s.Wait }),
			value("poll_interval", span(10*time.Millisecond, 10*time.Second), "100ms",
				"Time between two polls for the result.",
				func(s *Commands) *time.Duration { return &s.PollInterval }),
		),
		section(
			"payload",
			"Limits of a transaction's payload.",
			func(c *Config) *Payload { return &c.Payload },
			value("max_bytes", whole(1, 1<<20), "129024",
				"The most call data of a transaction, in bytes. Pools accept signed "+
					"transactions of up to 131072 bytes; the default leaves room for the other "+
					"fields.",
				func(p *Payload) *int { return &p.MaxBytes }),
		),
		section(
			"watch",
			"The event feed behind WatchTx. One reader per node serves all watchers.",
			func(c *Config) *Watch { return &c.Watch },
			watchFields()...),
		section(
			"log",
			"The node's log, on standard error.",
			func(c *Config) *Log { return &c.Log },
			value("level", oneOf("debug", "info", "warn", "error"), "info",
				"The lowest level that is logged.", func(l *Log) *string { return &l.Level }),
			value("format", oneOf("text", "json"), "text",
				"text: lines of key=value; json: lines of JSON.",
				func(l *Log) *string { return &l.Format }),
		),
		section("tracing", "Traces in OpenTelemetry's format (OTLP). Off by default.",
			func(c *Config) *Tracing { return &c.Tracing }, tracingFields()...),
		list(
			"chains",
			"The EVM chains that this node serves.",
			func(c *Config) *[]Chain { return &c.Chains },
			chainFields()...).must(),
		list(
			"signers",
			"The signers, which hold the keys.",
			func(c *Config) *[]Signer { return &c.Signers },
			signerFields()...),
		list(
			"submitters",
			"Accounts to send from, registered at startup. Register others with `fencepost "+
				"submitter add`.",
			func(c *Config) *[]Submitter { return &c.Submitters },
			submitterFields()...),
		sinkSection(),
		value("insecure", yesNo(), "false",
			"Accepts settings that a node otherwise rejects: a listener without authentication "+
				"on an address other than loopback, any origin without authentication, an "+
				"unencrypted database connection to another machine, and a key store or "+
				"configuration that other users of the machine can write to. Each is logged at "+
				"startup.",
			func(c *Config) *bool { return &c.Insecure }),
	}
}

func grpcFields() []field[GRPC] {
	return []field[GRPC]{
		value("listen", listener(), "127.0.0.1:9090",
			"Address to listen on, for gRPC, gRPC-Web, Connect and JSON over HTTP. Without "+
				"tls.client_ca_file, tokens_file and callers, any client that can reach it can "+
				"send from every account; keep it private in that case.",
			func(g *GRPC) *string { return &g.Listen }),
		section(
			"tls",
			"Encryption.",
			func(g *GRPC) *TLS { return &g.TLS },
			file("cert_file",
				"The node's certificate chain, in PEM form. Without it the node serves plain text.",
				func(t *TLS) *string { return &t.CertFile }),
			file("key_file",
				"The certificate's private key, in PEM form.",
				func(t *TLS) *string { return &t.KeyFile }),
			file("client_ca_file",
				"Certificate authorities, in PEM form. Every client must present a certificate "+
					"that one of them issued, load balancers that check health included.",
				func(t *TLS) *string { return &t.ClientCAFile }),
		),
		file("tokens_file",
			"Tokens, one per line; lines that begin with # are comments. Calls other than "+
				"health checks must send one of them, as `authorization: Bearer TOKEN`. To rotate "+
				"a token, keep both in the file for a while.",
			func(g *GRPC) *string { return &g.TokensFile }),
		value("reload_interval", span(time.Second, 24*time.Hour), "10s",
			"Time between two checks of the files of tls, tokens_file and callers. A change "+
				"applies to running streams too; an open connection is not asked for its "+
				"certificate again. If a file is invalid, the node logs an error and keeps the "+
				"previous version. SIGHUP triggers a check at once. Replace a file (mv) "+
				"instead of writing over it; a change is applied once the file has been stable "+
				"for a second.",
			func(g *GRPC) *time.Duration { return &g.ReloadInterval }),
		values(
			"allowed_origins",
			matching("the origin of a web site, as https://example.com, or *",
				`\*|https?://[^/?#\s]+`),
			"Web origins whose pages may call the API from a browser; * allows any. Requests "+
				"from other origins are rejected.",
			func(g *GRPC) *[]string { return &g.AllowedOrigins },
		),
		values("allowed_hosts", hostName(),
			"Further host names that clients of JSON, Connect and gRPC-Web may use for this node; "+
				"* allows any. Always allowed are IP addresses, localhost, the host in listen and "+
				"the names in the certificate. Other hosts get 421 Misdirected Request: a web "+
				"page could call the node under the name of its own site (DNS rebinding). Set it "+
				"for a name server entry, or a proxy that passes its host on. Native gRPC is not "+
				"checked: web pages cannot use it.",
			func(g *GRPC) *[]string { return &g.AllowedHosts }),
		value("max_streams_per_connection", whole[uint32](1, 1_000_000), "10000",
			"Concurrent calls per connection; further calls wait in the client. Over HTTP/2 "+
				"with JSON, Connect or gRPC-Web, at most 250. A gRPC connection "+
				"is closed once it has more rejected calls than this whose deadlines have not "+
				"passed; for calls without a valid token or certificate the limit is 1000.",
			func(g *GRPC) *uint32 { return &g.MaxStreamsPerConnection }),
		value("max_calls", whole(16, 1_000_000), "1024",
			"Concurrent calls on this node over all connections, except watches "+
				"(watch.max_streams) and health checks. BatchCreateTx and ListTxs count as 16. "+
				"A call counts until its response is read. Above the limit a call returns "+
				"RESOURCE_EXHAUSTED (NODE_BUSY) before its request is read. The limit bounds "+
				"the node's memory. Over gRPC a call holds a request of at most "+
				"payload.max_bytes plus 4 MiB. Over HTTP it holds twice payload.max_bytes plus "+
				"256 KiB (BatchCreateTx: plus 8 MiB), and as much again while the request is "+
				"decoded. Then it holds its response, which for ListTxs is up to 1 MiB plus "+
				"one row. In addition, up to 64 MiB of new transactions wait for the database. "+
				"A connection with 16 MiB of unread responses gets the same error for further "+
				"calls. A connection may have a quarter of all ListTxs calls that the node may "+
				"serve at once, and so may a caller over all its connections (CALLER_LIMITED). "+
				"Over HTTP a node builds four lists at once, one per caller (two per address, "+
				"for callers without names); others wait up to 15s. A caller may leave 8 MiB of "+
				"long HTTP responses unread, and all callers 128 MiB. Reads beyond that return "+
				"the same errors after they ran.",
			func(g *GRPC) *int { return &g.MaxCalls }),
		value("max_connections", orWord("auto", whole(16, 1_000_000)), "auto",
			"Open connections on this node. A full node closes the oldest connection without an "+
				"admitted call, of the address that has most of them, in favor of a new one. "+
				"auto: as many as the process's limit of open files allows, at most 65536. Some "+
				"files are kept for the database, RPC endpoints and ops.listen.",
			func(g *GRPC) *int { return &g.MaxConnections }),
		value("max_connections_per_address", orWord("auto", whole(1, 1_000_000)), "auto",
			"Open connections from one address, which is a /64 network for IPv6. auto: half of "+
				"max_connections. Raise it if all clients connect through one proxy.",
			func(g *GRPC) *int { return &g.MaxPerAddress }),
		value("ping_interval", span(time.Second, time.Hour), "30s",
			"How long a connection may be idle before it is pinged, how long an HTTP request "+
				"may take to arrive, and how long a response may take to be read. A call other "+
				"than a watch is cancelled after twice this time plus 15 s and commands.wait; "+
				"a connection that leaves a response unread for as long is closed.",
			func(g *GRPC) *time.Duration { return &g.PingInterval }),
		value("ping_timeout", span(100*time.Millisecond, 10*time.Minute), "10s",
			"How long the response to a ping may take before the connection is closed. Also the "+
				"shortest interval at which a gRPC client may ping; the connections of faster "+
				"ones are closed.",
			func(g *GRPC) *time.Duration { return &g.PingTimeout }),
		value("stop_grace", span(100*time.Millisecond, 10*time.Minute), "5s",
			"How long running calls may take to finish once the node stops. Calls that take "+
				"longer return UNAVAILABLE (DRAINING).",
			func(g *GRPC) *time.Duration { return &g.StopGrace }),
	}
}

func hostName() kind[string] {
	return matching("a host name without port, or *",
		`\*|(?i:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.?)`)
}

func callerFields() []field[Caller] {
	return []field[Caller]{
		value("name", label(), "", "The name that logs and errors use.",
			func(c *Caller) *string { return &c.Name }).must().inFile(),
		file("tokens_file",
			"The client's tokens, in the format of grpc.tokens_file. A token identifies the "+
				"caller regardless of the connection's certificate.",
			func(c *Caller) *string { return &c.TokensFile }),
		values(
			"certificates",
			matching("cn:, dns:, uri: or email:, and a name", `(?:cn|dns|uri|email):.+`),
			"Names, one of which the client's certificate must have: as the subject's common "+
				"name, or as a subject alternative name such as uri:spiffe://example.org/shop. If "+
				"tokens_file is set too, the client must present both. A call without a token "+
				"belongs to the first caller in the list that needs no token and matches the "+
				"certificate.",
			func(c *Caller) *[]string { return &c.Certificates },
		),
		values("submitters", matching(`name of a submitter, or *`, `\*|[a-z][a-z0-9._-]{0,63}`),
			"Accounts that the caller may use and see; * means all, including those registered "+
				"later.",
			func(c *Caller) *[]string { return &c.Submitters }),
		callerJWT(),
		callerPools(),
		value("role", oneOf("caller", "operator"), "caller",
			"caller: creates, watches, lists, cancels and speeds up transactions, and reads "+
				"accounts. operator: also changes, pauses and protects accounts, and resolves "+
				"STUCK transactions and protections; an operator of * also registers accounts.",
			func(c *Caller) *string { return &c.Role }),
		value("nonces", yesNo(), "false",
			"The caller may reserve nonces and submit signed transactions (nonce_api). An "+
				"operator always may.",
			func(c *Caller) *bool { return &c.Nonces }),
		callerApprove(),
		value("weight", whole(1, 1000), "1",
			"Weight of the caller when the node is busy. Half of grpc.max_calls and of "+
				"watch.max_streams is guaranteed to the callers, divided by weight. The other "+
				"half is common: a caller may hold at most seven times as much of it as is free. "+
				"A call above that returns RESOURCE_EXHAUSTED (CALLER_LIMITED). A single caller "+
				"has all the room. Without callers, each source address (a /64 network of IPv6) "+
				"counts as a caller, and all the room is common.",
			func(c *Caller) *int { return &c.Weight }),
		value("rate", orZero(number(0.01, 1_000_000)), "0",
			"The most calls of the caller per second and node, health checks excluded. "+
				"BatchCreateTx and ListTxs count as 16. As many calls as in one second may come "+
				"at once, or 16 if that is more. A call above the rate returns "+
				"RESOURCE_EXHAUSTED (CALLER_LIMITED) with the time to wait. 0: no limit.",
			func(c *Caller) *float64 { return &c.Rate }),
		section("policy", "Limits of the transactions that the caller may create: see "+
			"docs/policies.md. Configure all nodes alike.",
			func(c *Caller) *CallerPolicy { return &c.Policy }, policyFields()...),
	}
}

func databaseFields() []field[Database] {
	return []field[Database]{
		value("url", postgres(), "",
			"The database URL. Required unless url_file or ledgers is set.",
			func(d *Database) *Secret { return &d.URL }),
		file("url_file",
			"A file that holds the URL instead, for secrets mounted into containers.",
			func(d *Database) *string { return &d.URLFile }),
		value(
			"schema",
			schemaName(),
			"public",
			"The schema that holds the tables.",
			func(d *Database) *string { return &d.Schema },
		),
		value("max_connections", whole(4, 1000), "20",
			"The most connections for API calls. Owners, commits and renewals use a few of "+
				"their own in addition.",
			func(d *Database) *int { return &d.MaxConnections }),
		value("commit_connections", whole(1, 16), "1",
			"Connections for the commits of owners. Each runs one commit at a time, for many "+
				"submitters; a submitter always uses the same connection. Raise it when a node at "+
				"full load leaves cores of PostgreSQL idle. Each commit then holds fewer changes.",
			func(d *Database) *int { return &d.CommitConnections }),
		value("statement_timeout", span(100*time.Millisecond, 10*time.Minute), "3s",
			"Timeout of one commit of an owner in the database.",
			func(d *Database) *time.Duration { return &d.StatementTimeout }),
	}
}

func leaseFields() []field[Lease] {
	return []field[Lease]{
		value(
			"mode",
			oneOf("basic", "worker-queue"),
			"basic",
			"Which node acquires a submitter that has work. basic: whichever node finds it "+
				"free. worker-queue: the live node that hashing prefers; other nodes transfer "+
				"the submitter to it. This spreads submitters evenly and moves few of them "+
				"when a node joins or leaves. Configure all nodes alike; a difference costs "+
				"only time.",
			func(l *Lease) *string { return &l.Mode },
		),
		value("duration", span(time.Second, 10*time.Minute), "10s",
			"Lifetime of a lease without renewal, and so the time until another node takes "+
				"over after a crash. Only the database's clock counts.",
			func(l *Lease) *time.Duration { return &l.Duration }),
		value("renew_interval", span(100*time.Millisecond, 3*time.Minute), "3s",
			"Time between two renewals of all leases of the node.",
			func(l *Lease) *time.Duration { return &l.RenewInterval }),
		value("sweep_interval", span(10*time.Millisecond, time.Minute), "1s",
			"Time between two scans for submitters that have work but no owner.",
			func(l *Lease) *time.Duration { return &l.SweepInterval }),
		value("idle_after", span(time.Second, 24*time.Hour), "30s",
			"How long an owner keeps the lease of a submitter without work.",
			func(l *Lease) *time.Duration { return &l.IdleAfter }),
		value("progress_timeout", span(2*time.Second, time.Hour), "60s",
			"How long one step of an owner may take before its lease is no longer renewed and "+
				"another node takes over.",
			func(l *Lease) *time.Duration { return &l.ProgressTimeout }),
		value("max_owned", whole(1, 1_000_000), "10000",
			"The most submitters that this node owns at a time.",
			func(l *Lease) *int { return &l.MaxOwned }),
	}
}

func watchFields() []field[Watch] {
	return []field[Watch]{
		value("poll_interval", span(10*time.Millisecond, time.Minute), "200ms",
			"Time between two reads of the feed when no notification arrives.",
			func(w *Watch) *time.Duration { return &w.PollInterval }),
		value("min_gap", span(time.Millisecond, time.Minute), "5ms",
			"The least time between two reads of the feed.",
			func(w *Watch) *time.Duration { return &w.MinGap }),
		value("ring_events", whole(256, 1<<24), "16384",
			"The number of newest events that all watchers share in memory. Watchers that fall "+
				"further behind read from the ledger.",
			func(w *Watch) *int { return &w.RingEvents }),
		value("max_streams", whole(1, 1_000_000), "20000",
			"Concurrent WatchTx streams on this node; as many health watches in addition, and "+
				"8 health calls per connection. Above the limit a call returns RESOURCE_EXHAUSTED "+
				"(NODE_BUSY); clients retry on another node, or later.",
			func(w *Watch) *int { return &w.MaxStreams }),
		value("page_events", whole(1, 10_000), "256", "The most events per read.",
			func(w *Watch) *int { return &w.PageEvents }),
		value("outage_grace", span(100*time.Millisecond, time.Hour), "30s",
			"How long a stream waits for an unavailable database before it ends.",
			func(w *Watch) *time.Duration { return &w.OutageGrace }),
	}
}

// MaxAuditDepth is the largest audit depth, the number of blocks that the engine keeps in memory.
const MaxAuditDepth = 4094

func chainFields() []field[Chain] {
	return []field[Chain]{
		value("name", label(), "", "The name that submitters, errors and logs use.",
			func(c *Chain) *string { return &c.Name }).must().inFile(),
		value("chain_id", whole[uint64](1, 1<<63-1), "",
			"The EIP-155 chain id. Every endpoint must report it.",
			func(c *Chain) *uint64 { return &c.ChainID }).must(),
		chainProfile(),
		value("genesis", blockHash(), "",
			"The hash of block 0, which every endpoint must report. If it is not set, the "+
				"first endpoint's genesis hash is used. An endpoint that does not serve block 0 "+
				"can be used only if it is set; such an endpoint is verified by its chain id.",
			func(c *Chain) *common.Hash { return &c.Genesis }),
		values("rpc", endpoint(),
			"JSON-RPC endpoints in order of preference. The URLs often contain a provider's "+
				"key, so they are never printed.",
			func(c *Chain) *[]Secret { return &c.RPC }).must(),
		value("rpc_timeout", span(100*time.Millisecond, 10*time.Minute), "10s",
			"Timeout of one call to one endpoint.",
			func(c *Chain) *time.Duration { return &c.RPCTimeout }),
		value("rpc_max_in_flight", whole(1, 100_000), "100", "Concurrent calls per endpoint.",
			func(c *Chain) *int { return &c.RPCMaxInFlight }),
		value("rpc_batch_limit", whole(1, 10_000), "100",
			"Calls per JSON-RPC batch. 1 sends no batches. A node whose endpoint refuses larger "+
				"batches sends smaller ones, and logs it.",
			func(c *Chain) *int { return &c.RPCBatchLimit }),
		value("poll_interval", span(10*time.Millisecond, 10*time.Minute), "1s",
			"Time between two polls of the chain's head; about half of the block time is a "+
				"good value.",
			func(c *Chain) *time.Duration { return &c.PollInterval }),
		value("lag_grace", span(time.Second, time.Hour), "30s",
			"How long an endpoint behind the highest block seen is considered to lag. After "+
				"that time the chain is considered to have lost blocks.",
			func(c *Chain) *time.Duration { return &c.LagGrace }),
		value("confirmations", whole[uint64](1, 2000), "20",
			"Canonical blocks above the receipt's block that make a transaction final.",
			func(c *Chain) *uint64 { return &c.Confirmations }),
		value("release_depth", orWord("final", whole[uint64](1, 2000)), "1",
			"Depth of the receipt's block at which its nonce no longer counts as in flight: a "+
				"strict submitter may then take its next one. "+
				"1: as soon as the receipt is in a canonical block, regardless of "+
				"finality.tag; 2: with one block above it, and so on. final, or a value equal "+
				"to confirmations if that is above 1: once the transaction is final, "+
				"finality.tag included.",
			func(c *Chain) *uint64 { return &c.ReleaseDepth }),
		section(
			"protect",
			"When a submitter is put under PROTECT: no nonce is taken until an operator decides.",
			func(c *Chain) *Protect { return &c.Protect },
			value("lag_grace", span(time.Second, time.Hour), "60s",
				"How long the chain may lack transactions that the ledger has in blocks before "+
					"this counts as lost blocks rather than endpoint lag.",
				func(p *Protect) *time.Duration { return &p.LagGrace }),
		),
		section(
			"finality",
			"When the chain is considered unchangeable.",
			func(c *Chain) *Finality { return &c.Finality },
			value("tag", oneOf("none", "safe", "finalized"), "none",
				"The block that the chain itself calls safe or finalized. Nothing above it is "+
					"final, regardless of confirmations. none: confirmations alone decide. At "+
					"startup the node rejects a chain whose endpoints do not support the tag.",
				func(f *Finality) *string { return &f.Tag }),
			value("audit_depth", orZero(whole[uint64](1, MaxAuditDepth)), "0",
				"Depth, in blocks, below which reorgs are considered impossible. At that depth "+
					"of another use of a nonce, an operator can fail or requeue the transaction "+
					"that lost it, and skip nonces. The maximum is the number of a chain's blocks "+
					"that a node keeps in memory. 0: four times confirmations, up to that maximum.",
				func(f *Finality) *uint64 { return &f.AuditDepth }),
			value("tell_blocks", yesNo(), "false",
				"Emits an event for each canonical block above the receipt's block, with its hash.",
				func(f *Finality) *bool { return &f.TellBlocks }),
		),
		section(
			"prepare",
			"How a transaction is prepared before it takes a nonce.",
			func(c *Chain) *Prepare { return &c.Prepare },
			value("max_age", orZero(span(time.Second, 30*24*time.Hour)), "0",
				"How long the head of a queue may wait for funds, fees, the chain or the "+
					"signer. After that time the transaction fails without a nonce, and the next "+
					"one proceeds. 0: no limit.",
				func(p *Prepare) *time.Duration { return &p.MaxAge }),
			value("simulate", oneOf("always", "without-gas-limit"), "always",
				"Which transactions are simulated on the latest state before they take a "+
					"nonce. One that would revert fails without a nonce. without-gas-limit: "+
					"simulates only those whose gas must be estimated. A caller's own gas "+
					"limit is then trusted as long as it can cover the data, and a transaction "+
					"that reverts does so on chain, for a fee. This saves most RPC calls: "+
					"prices are read once per block, and the balance of a well-funded account "+
					"only occasionally.",
				func(p *Prepare) *string { return &p.Simulate }),
		),
		section(
			"resubmit",
			"Rebroadcasting a transaction while it is not included.",
			func(c *Chain) *Resubmit { return &c.Resubmit },
			value("interval", span(100*time.Millisecond, 24*time.Hour), "60s",
				"Time between two broadcasts.",
				func(r *Resubmit) *time.Duration { return &r.Interval }),
			value("max_attempts", whole(1, 1_000_000), "20",
				"Broadcasts after which a transaction becomes STUCK. It is still tracked and "+
					"rebroadcast.",
				func(r *Resubmit) *int { return &r.MaxAttempts }),
			value("max_age", orZero(span(time.Second, 365*24*time.Hour)), "0",
				"Age of the first attempt after which a transaction that is in no block "+
					"becomes STUCK, even if no node could be reached. It is still tracked and "+
					"rebroadcast. 0: no limit.",
				func(r *Resubmit) *time.Duration { return &r.MaxAge }),
		),
		section(
			"gas_bump",
			"Replacing a transaction that is not included with an attempt at the same nonce "+
				"and higher fees.",
			func(c *Chain) *GasBump { return &c.GasBump },
			gasBumpFields()...),
		section(
			"mempool",
			"Inspection of the nodes' pools.",
			func(c *Chain) *Mempool { return &c.Mempool },
			value("diagnose", yesNo(), "false",
				"Looks up a transaction in a node's pool before each rebroadcast. The result "+
					"is shown as a hint, because pools differ.",
				func(m *Mempool) *bool { return &m.Diagnose }),
		),
		section(
			"fees",
			"The fees of transactions, per unit of gas.",
			func(c *Chain) *Fees { return &c.Fees },
			feeFields()...),
		section(
			"gas",
			"The gas limits of transactions.",
			func(c *Chain) *Gas { return &c.Gas },
			value("margin", number(1, 10), "1.2",
				"Factor applied to gas estimates. A gas limit from the caller is used unchanged. "+
					"A plain transfer that runs no code gets exactly 21000.",
				func(g *Gas) *float64 { return &g.Margin }),
			value("max_limit", whole(0, 1<<40), "16777216",
				"The most gas of one transaction; the default is the limit of EIP-7825. A "+
					"transaction above it fails before it takes a nonce, with the reason "+
					"GAS_LIMIT_ABOVE_MAXIMUM. 0: only the block's limit applies.",
				func(g *Gas) *int { return &g.MaxLimit }),
		),
		files("abi_files",
			"JSON ABIs, or compiler artifacts, of the contracts that are called. A custom "+
				"error defined in them is reported by name when a call would revert.",
			func(c *Chain) *[]string { return &c.ABIFiles }),
		chainBalance(),
	}
}

func gasBumpFields() []field[GasBump] {
	return []field[GasBump]{
		value("enabled", yesNo(), "false",
			"Enables automatic fee bumping. If false, callers and operators can still request "+
				"a bump, and cancel transactions are still bumped, because one that is not may "+
				"never be included. A transaction whose fees every node refused is replaced in "+
				"any case, up to fees.max_fee_cap_gwei.",
			func(g *GasBump) *bool { return &g.Enabled }),
		value("multiplier", number(1.1, 10), "1.125",
			"Minimum factor applied to both fees of the last attempt that a node accepted. "+
				"Pools of go-ethereum require at least 1.1.",
			func(g *GasBump) *float64 { return &g.Multiplier }),
		value("min_interval", span(time.Second, 24*time.Hour), "60s",
			"The least time between two attempts of a transaction, cancel transactions included.",
			func(g *GasBump) *time.Duration { return &g.MinInterval }),
		value("max_attempts", whole(1, 1000), "10",
			"The most automatic replacements of a transaction, and the most replacements of "+
				"its first cancel transaction.",
			func(g *GasBump) *int { return &g.MaxAttempts }),
		value("budget", whole(1, 1024), "4",
			"Transactions of a pipelined account that may be bumped in a resubmit.interval, "+
				"lowest nonces first. Blocks take nonces in order, so the others would wait "+
				"anyway.",
			func(g *GasBump) *int { return &g.Budget }),
		value("max_fee_cap_gwei", gwei("0"), "500",
			"The highest fee cap of any attempt but the first, tip included. It replaces "+
				"fees.max_fee_cap_gwei; the caps of the account and of the transaction apply too. "+
				"A transaction that needs more becomes STUCK with the reason FEE_CAP_REACHED and "+
				"is still rebroadcast. 0: no limit.",
			func(g *GasBump) *uint256.Int { return &g.MaxFeeCap }),
	}
}

func feeFields() []field[Fees] {
	return []field[Fees]{
		value("history_blocks", whole(1, 1024), "10",
			"Number of newest blocks whose tips are sampled.",
			func(f *Fees) *int { return &f.HistoryBlocks }),
		value("percentile", number(1, 100), "50",
			"Percentile of the sampled tips that is offered at standard speed.",
			func(f *Fees) *float64 { return &f.Percentile }),
		value("slow_percentile", orZero(number(1, 100)), "0",
			"Percentile at slow speed. 0: 25, or the standard percentile if that is lower.",
			func(f *Fees) *float64 { return &f.SlowPercentile }),
		value("fast_percentile", orZero(number(1, 100)), "0",
			"Percentile at fast speed. 0: 75, or the standard percentile if that is higher. On "+
				"a chain without base fees, the fast speed offers 25 % above the node's gas "+
				"price, and the other speeds offer that price.",
			func(f *Fees) *float64 { return &f.FastPercentile }),
		value("min_tip_gwei", gwei("0.000000001"), "0.001",
			"The lowest tip that is offered. If the chain's nodes require more, the node "+
				"learns a higher tip from their refusals, up to max_fee_cap_gwei, and the ledger "+
				"remembers it.",
			func(f *Fees) *uint256.Int { return &f.MinTip }),
		value("min_price_gwei", gwei("0"), "0",
			"The lowest fee cap or gas price that is offered, for chains with a minimum price.",
			func(f *Fees) *uint256.Int { return &f.MinPrice }),
		value("max_fee_cap_gwei", gwei("0"), "500",
			"The highest fee cap that is offered, tip included. 0: no limit.",
			func(f *Fees) *uint256.Int { return &f.MaxFeeCap }),
		value("fixed_price_gwei", optional(gwei("0")), "",
			"Sends legacy transactions at this price, regardless of the chain's fees; for "+
				"private chains.",
			func(f *Fees) **uint256.Int { return &f.FixedPrice }),
		value("l1_fee", oneOf("none", "op-stack"), "none",
			"Source of the fees that a rollup charges in addition to gas. op-stack: the "+
				"GasPriceOracle contract (since Fjord), once per block, as upper bounds of the L1 "+
				"data fee and the operator fee. They count towards the funds that a transaction "+
				"needs.",
			func(f *Fees) *string { return &f.L1Fee }),
	}
}

func submitterFields() []field[Submitter] {
	return []field[Submitter]{
		value("name", label(), "", "The name that callers and operators use.",
			func(s *Submitter) *string { return &s.Name }).must().inFile(),
		value("chain", label(), "", "Name of its chain.",
			func(s *Submitter) *string { return &s.Chain }).must(),
		value("address", account(), "", "Address of the account.",
			func(s *Submitter) *common.Address { return &s.Address }).must(),
		value("signer", label(), "", "Name of the signer that holds its key.",
			func(s *Submitter) *string { return &s.Signer }).must(),
		value("mode", oneOf("strict", "pipelined", "external"), "",
			"How many transactions may have a nonce before they reach release_depth. strict (the "+
				"default): one at a time; pipelined: up to max_in_flight. external: clients sign, "+
				"and reserve nonces (nonce_api). The ledger's value "+
				"applies to an account that is already registered; change it with fencepost "+
				"submitter update.",
			func(s *Submitter) *string { return &s.Mode }),
		value("max_in_flight", whole(0, 1024), "0",
			"The limit of mode pipelined. 0: 16, as many as pools of go-ethereum keep of an "+
				"account. In mode external, the most nonces that are RESERVED or PENDING; 0: 64. "+
				"As with mode, the ledger's value applies.",
			func(s *Submitter) *int { return &s.MaxInFlight }),
		value("start_from", matching(`"0", "chain" or a nonce`, `chain|0|[1-9][0-9]{0,17}`), "0",
			"The first nonce. 0 requires an account that never sent a transaction; chain "+
				"continues after the account's existing transactions; a number requires that "+
				"exact nonce.",
			func(s *Submitter) *string { return &s.StartFrom }),
		value("ledger", label(), "",
			"Name of the ledger in which it is registered, of those in ledgers. Not set: the "+
				"first.",
			func(s *Submitter) *string { return &s.Ledger }),
		value(
			"on_failure",
			oneOf("continue", "pause"),
			"",
			"The reaction to a transaction that is included and reverts. continue (the default): "+
				"the next one proceeds; pause: the account is paused. The ledger's value applies "+
				"to an account that is already registered; change it with fencepost submitter "+
				"update.",
			func(s *Submitter) *string { return &s.OnFailure },
		),
		value(
			"max_fee_gwei",
			optional(gwei("0")),
			"",
			"The highest fee cap of this account, below the limits of its chain. 0 (the "+
				"default): only those limits. The ledger's value applies to an account that is "+
				"already registered; change it with fencepost submitter update.",
			func(s *Submitter) **uint256.Int { return &s.MaxFee },
		),
	}
}
