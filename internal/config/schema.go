package config

import (
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

// schema is the one table of keys: name, kind, default, meaning, and the field that it fills. Sections and their keys are in the order of the reference.
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
				"What other nodes and operators see as the owner of a submitter. Each process gets an id of its own behind it, so a name that is used twice is confusing but safe.",
				func(n *Node) *string { return &n.Name },
			).must(),
		),
		section(
			"grpc",
			"The listener for callers.",
			func(c *Config) *GRPC { return &c.GRPC },
			grpcFields()...),
		list(
			"callers",
			"Who may call, each with rights of its own. The list is read when the node starts; only the files that it names are read anew. Without it whoever is let in by grpc.tls.client_ca_file and grpc.tokens_file may do everything.",
			func(c *Config) *[]Caller { return &c.Callers },
			callerFields()...),
		section(
			"ops",
			"The listener for operators, over HTTP: /metrics, /healthz, /readyz.",
			func(c *Config) *Ops { return &c.Ops },
			value("listen", listener(), "127.0.0.1:9091", "Address to listen on.",
				func(o *Ops) *string { return &o.Listen }),
		),
		section(
			"database",
			"The PostgreSQL that holds the ledger.",
			func(c *Config) *Database { return &c.Database },
			databaseFields()...),
		section(
			"lease",
			"How nodes divide the submitters among themselves: each is owned by one node, by a lease.",
			func(c *Config) *Lease { return &c.Lease },
			leaseFields()...),
		section(
			"audit",
			"The standing check of the ledger against its laws and the chain.",
			func(c *Config) *Audit { return &c.Audit },
			value(
				"interval",
				orZero(span(time.Second, 24*time.Hour)),
				"1m",
				"Time between two checks of each submitter that this node owns. A violation is counted and logged, and puts that submitter under PROTECT. 0: no checks.",
				func(a *Audit) *time.Duration { return &a.Interval },
			),
		),
		section(
			"queue",
			"How an owner notices work that others wrote into the ledger, and how much of it may wait there. The limits are those of the node that is called: give all nodes the same. Nodes count now and then, and not at each call: with N of them running, a queue grows beyond its limit by (N-1)/16 of it at most, or by (N-1)*1024 where that is more, and never beyond N times the limit. A node that was started anew meanwhile counts as one more.",
			func(c *Config) *Queue { return &c.Queue },
			value("poll_interval", span(10*time.Millisecond, time.Minute), "1s",
				"Time between two looks at the queues and commands of the submitters that this node owns.",
				func(q *Queue) *time.Duration { return &q.PollInterval }),
			value("max_per_submitter", orZero(whole(1, 1_000_000_000)), "100000",
				"How many transactions may wait for one account. Beyond them CreateTx answers RESOURCE_EXHAUSTED (QUEUE_FULL) and says when to come again. 0: no limit.",
				func(q *Queue) *int { return &q.MaxPerSubmitter }),
			value("max_total", orZero(whole(1, 1_000_000_000)), "1000000",
				"How many transactions may wait in the ledger in all. 0: no limit.",
				func(q *Queue) *int { return &q.MaxTotal }),
		),
		section(
			"commands",
			"How calls that ask something of the owner of a submitter (pause, resume, update, protect, exit, resolve, speed up) wait until it has decided.",
			func(c *Config) *Commands { return &c.Commands },
			value("wait", span(time.Second, 10*time.Minute), "30s",
				"The longest wait. The command stays recorded after it.",
				func(s *Commands) *time.Duration { return &s.Wait }),
			value("poll_interval", span(10*time.Millisecond, 10*time.Second), "100ms",
				"Time between two looks.",
				func(s *Commands) *time.Duration { return &s.PollInterval }),
		),
		section(
			"payload",
			"What callers may ask for.",
			func(c *Config) *Payload { return &c.Payload },
			value("max_bytes", whole(1, 1<<20), "129024",
				"The most call data of a transaction, in bytes. Pools take signed transactions of 131072 bytes; the default leaves room for what is around the data.",
				func(p *Payload) *int { return &p.MaxBytes }),
		),
		section(
			"watch",
			"The feed of events that WatchTx reads. One reader for each node serves all watchers.",
			func(c *Config) *Watch { return &c.Watch },
			watchFields()...),
		section(
			"log",
			"What this node tells about itself, on standard error.",
			func(c *Config) *Log { return &c.Log },
			value("level", oneOf("debug", "info", "warn", "error"), "info",
				"The least that is logged.", func(l *Log) *string { return &l.Level }),
			value("format", oneOf("text", "json"), "text", "Lines of key=value, or of JSON.",
				func(l *Log) *string { return &l.Format }),
		),
		list(
			"chains",
			"The EVM chains that this node works on.",
			func(c *Config) *[]Chain { return &c.Chains },
			chainFields()...).must(),
		list(
			"signers",
			"The holders of keys.",
			func(c *Config) *[]Signer { return &c.Signers },
			value("name", label(), "", "What submitters call it.",
				func(s *Signer) *string { return &s.Name }).must().inFile(),
			value("timeout", span(100*time.Millisecond, 10*time.Minute), "10s",
				"How long one signature may take. No nonce is taken while it is awaited.",
				func(s *Signer) *time.Duration { return &s.Timeout }),
			section(
				"keystore",
				"A folder of V3 key files, as geth and `fencepost key` write them. Keys that are added later are found without a restart.",
				func(s *Signer) *KeyStore { return &s.KeyStore },
				file("dir", "The folder.", func(k *KeyStore) *string { return &k.Dir }).must(),
				file("password_file", "A file with the one password of all keys of the folder.",
					func(k *KeyStore) *string { return &k.PasswordFile }).must(),
			),
		),
		list(
			"submitters",
			"Accounts to send from that are registered when the node starts. Others are registered with `fencepost submitter add`.",
			func(c *Config) *[]Submitter { return &c.Submitters },
			submitterFields()...),
		value("insecure", yesNo(), "false",
			"Accepts the settings that a node refuses otherwise: a listener without authentication "+
				"on other addresses than loopback, any origin without authentication, an "+
				"unencrypted database connection to another machine, and a key store or "+
				"configuration that other users of the machine can write to. Each is logged at "+
				"the start.",
			func(c *Config) *bool { return &c.Insecure }),
	}
}

func grpcFields() []field[GRPC] {
	return []field[GRPC]{
		value("listen", listener(), "127.0.0.1:9090",
			"Address to listen on, for gRPC, gRPC-Web, Connect and JSON over HTTP. Without tls.client_ca_file, tokens_file and callers whoever reaches it can send from every account: keep it private then.",
			func(g *GRPC) *string { return &g.Listen }),
		section(
			"tls",
			"Encryption.",
			func(g *GRPC) *TLS { return &g.TLS },
			file("cert_file",
				"The certificate of the node, with those that lead to its authority, in PEM form. Without it the node speaks plain text.",
				func(t *TLS) *string { return &t.CertFile }),
			file("key_file", "Its key, in PEM form.", func(t *TLS) *string { return &t.KeyFile }),
			file("client_ca_file",
				"Authorities, in PEM form: only callers with a certificate of one of them are let in, load balancers that ask for health among them.",
				func(t *TLS) *string { return &t.ClientCAFile }),
		),
		file("tokens_file",
			"Tokens, one a line; lines that begin with # are comments. Only calls with one of them are answered, but for health; it is sent as `authorization: Bearer TOKEN`. To change a token, have both in the file for a while.",
			func(g *GRPC) *string { return &g.TokensFile }),
		value("reload_interval", span(time.Second, 24*time.Hour), "10s",
			"Time between two looks at the files of tls, of tokens_file and of callers. What has changed counts from then on, for streams too; on connections that stand a certificate is not asked for again. Files that are not in order are told in the log, and the node goes on with what it has. SIGHUP makes it look at once. Put a new file in the place of the old one (mv) rather than write over it; what has changed is believed once it has stayed the same for a second.",
			func(g *GRPC) *time.Duration { return &g.ReloadInterval }),
		values(
			"allowed_origins",
			matching("the origin of a web site, as https://example.com, or *",
				`\*|https?://[^/?#\s]+`),
			"Web sites whose pages may call from a browser; * is any. Pages of all others are refused.",
			func(g *GRPC) *[]string { return &g.AllowedOrigins },
		),
		value("max_streams_per_connection", whole[uint32](1, 1_000_000), "10000",
			"Calls of one connection that are answered at once; more wait in the client. A connection is closed when it has more refused calls than this whose deadlines are still to come; for want of a token or certificate 1000 are enough.",
			func(g *GRPC) *uint32 { return &g.MaxStreamsPerConnection }),
		value("max_calls", whole(16, 1_000_000), "1024",
			"Calls that this node answers at once, of all connections, without watches (watch.max_streams) and health. BatchCreateTx and ListTxs count as 16. A call counts until its answer is read. Beyond that the answer is RESOURCE_EXHAUSTED (NODE_BUSY), before anything is read of the request. It bounds the memory of the node: a call holds its request, which over gRPC is payload.max_bytes and 4 MiB more at most, and over HTTP twice payload.max_bytes and 256 KiB (of BatchCreateTx twice payload.max_bytes and 8 MiB) and as much again while it becomes a message, then its answer, of which ListTxs has 2 MiB and a row, and up to 64 MiB of new transactions wait for the database besides. A connection that has 16 MiB of answers unread, or a quarter of all the lists that the node answers at once, is refused further ones in the same way.",
			func(g *GRPC) *int { return &g.MaxCalls }),
		value("ping_interval", span(time.Second, time.Hour), "30s",
			"How long a connection may be silent before it is pinged, how long a request over HTTP may take to arrive, and how long an answer may take to be read. A call, but for a watch, that is not over after both of these, 15 s and commands.wait, is broken off; a connection that leaves an answer unread for as long is closed.",
			func(g *GRPC) *time.Duration { return &g.PingInterval }),
		value("ping_timeout", span(100*time.Millisecond, 10*time.Minute), "10s",
			"How long the answer to a ping may take before the connection is closed.",
			func(g *GRPC) *time.Duration { return &g.PingTimeout }),
		value("stop_grace", span(100*time.Millisecond, 10*time.Minute), "5s",
			"How long calls under way may take once the node stops.",
			func(g *GRPC) *time.Duration { return &g.StopGrace }),
	}
}

func callerFields() []field[Caller] {
	return []field[Caller]{
		value("name", label(), "", "What logs and errors call it.",
			func(c *Caller) *string { return &c.Name }).must().inFile(),
		file("tokens_file",
			"Its tokens, written as in grpc.tokens_file. A call with a token is that of its caller, whatever certificate the connection has.",
			func(c *Caller) *string { return &c.TokensFile }),
		values(
			"certificates",
			matching("cn:, dns:, uri: or email:, and a name", `(?:cn|dns|uri|email):.+`),
			"Names, of which its certificate has one: as the subject's common name, or as a subject alternative name, as in uri:spiffe://example.org/shop. With tokens_file as well it has to show both. A call without a token is that of the first caller in the list that needs none and has a name of the certificate.",
			func(c *Caller) *[]string { return &c.Certificates },
		),
		values("submitters", matching(`name of a submitter, or *`, `\*|[a-z][a-z0-9._-]{0,63}`),
			"Accounts that it may use and see; * is all of them, those that are registered later too.",
			func(c *Caller) *[]string { return &c.Submitters }).must(),
		value("role", oneOf("caller", "operator"), "caller",
			"caller: creates, watches, lists, cancels and speeds up transactions, and looks at accounts. operator: changes, pauses and protects accounts as well, and decides on what is STUCK or protected; an operator of * also registers accounts.",
			func(c *Caller) *string { return &c.Role }),
	}
}

func databaseFields() []field[Database] {
	return []field[Database]{
		value("url", postgres(), "",
			"Where the database is and how to get in. Required, unless url_file is there.",
			func(d *Database) *Secret { return &d.URL }),
		file("url_file",
			"A file that holds the URL instead, as secrets are mounted into containers.",
			func(d *Database) *string { return &d.URLFile }),
		value(
			"schema",
			matching(`1 to 63 of a-z, 0-9 and "_", not starting with a digit`,
				`[a-z_][a-z0-9_]{0,62}`),
			"public",
			"The schema that holds the tables.",
			func(d *Database) *string { return &d.Schema },
		),
		value("max_connections", whole(4, 1000), "20",
			"The most connections for the calls of callers. Owners, commits and renewals have a few of their own beside them.",
			func(d *Database) *int { return &d.MaxConnections }),
		value("statement_timeout", span(100*time.Millisecond, 10*time.Minute), "3s",
			"How long the database may work on one commit of an owner.",
			func(d *Database) *time.Duration { return &d.StatementTimeout }),
	}
}

func leaseFields() []field[Lease] {
	return []field[Lease]{
		value(
			"mode",
			oneOf("basic", "worker-queue"),
			"basic",
			"Who takes a submitter that has work. basic: whichever node finds it free. worker-queue: the node that hashing prefers among those that live; the others hand it over, which spreads submitters evenly and moves as few as possible when a node comes or goes. All nodes should have the same; where they differ nothing but time is lost.",
			func(l *Lease) *string { return &l.Mode },
		),
		value("duration", span(time.Second, 10*time.Minute), "10s",
			"How long a lease holds without renewal: the time until another node takes over after a crash. Only the database's clock decides it.",
			func(l *Lease) *time.Duration { return &l.Duration }),
		value("renew_interval", span(100*time.Millisecond, 3*time.Minute), "3s",
			"Time between two renewals of all leases of the node.",
			func(l *Lease) *time.Duration { return &l.RenewInterval }),
		value("sweep_interval", span(10*time.Millisecond, time.Minute), "1s",
			"Time between two looks for submitters with work and without an owner.",
			func(l *Lease) *time.Duration { return &l.SweepInterval }),
		value("idle_after", span(time.Second, 24*time.Hour), "30s",
			"An owner gives the lease of a submitter without work back after this.",
			func(l *Lease) *time.Duration { return &l.IdleAfter }),
		value("progress_timeout", span(2*time.Second, time.Hour), "60s",
			"How long an owner may be inside one step before its lease is not renewed any more and another node takes over.",
			func(l *Lease) *time.Duration { return &l.ProgressTimeout }),
		value("max_owned", whole(1, 1_000_000), "10000",
			"The most submitters that this node owns at a time.",
			func(l *Lease) *int { return &l.MaxOwned }),
	}
}

func watchFields() []field[Watch] {
	return []field[Watch]{
		value("poll_interval", span(10*time.Millisecond, time.Minute), "200ms",
			"Time between two reads of the feed when nothing says that there is news.",
			func(w *Watch) *time.Duration { return &w.PollInterval }),
		value("min_gap", span(time.Millisecond, time.Minute), "5ms",
			"The least time between two reads of the feed.",
			func(w *Watch) *time.Duration { return &w.MinGap }),
		value("ring_events", whole(256, 1<<24), "16384",
			"How many of the newest events all watchers share in memory. Who falls further behind reads from the ledger.",
			func(w *Watch) *int { return &w.RingEvents }),
		value("max_streams", whole(1, 1_000_000), "20000",
			"WatchTx streams that this node serves at once; as many watches of its health besides, 8 calls of health on one connection. Beyond that the answer is RESOURCE_EXHAUSTED (NODE_BUSY), and clients watch through another node, or later.",
			func(w *Watch) *int { return &w.MaxStreams }),
		value("page_events", whole(1, 10_000), "256", "The most events of one read.",
			func(w *Watch) *int { return &w.PageEvents }),
		value("outage_grace", span(100*time.Millisecond, time.Hour), "30s",
			"How long a stream waits for a database that is down before it ends.",
			func(w *Watch) *time.Duration { return &w.OutageGrace }),
	}
}

// MostAuditDepth is how deep the engine compares final transactions with the chain at most: it keeps no more blocks in memory.
const MostAuditDepth = 4094

func chainFields() []field[Chain] {
	return []field[Chain]{
		value("name", label(), "", "What submitters, errors and logs call it.",
			func(c *Chain) *string { return &c.Name }).must().inFile(),
		value("chain_id", whole[uint64](1, 1<<63-1), "",
			"EIP-155 chain id. Every endpoint must answer it.",
			func(c *Chain) *uint64 { return &c.ChainID }).must(),
		value("genesis", blockHash(), "",
			"Hash of block 0, which every endpoint must answer. Without it that of the first endpoint counts.",
			func(c *Chain) *common.Hash { return &c.Genesis }),
		values("rpc", endpoint(),
			"JSON-RPC endpoints in order of preference. They often hold a provider's key, so they are never shown.",
			func(c *Chain) *[]Secret { return &c.RPC }).must(),
		value("rpc_timeout", span(100*time.Millisecond, 10*time.Minute), "10s",
			"How long one call to one endpoint may take.",
			func(c *Chain) *time.Duration { return &c.RPCTimeout }),
		value("rpc_max_in_flight", whole(1, 100_000), "100", "Calls under way to one endpoint.",
			func(c *Chain) *int { return &c.RPCMaxInFlight }),
		value("rpc_batch_limit", whole(1, 10_000), "100", "Calls in one JSON-RPC batch.",
			func(c *Chain) *int { return &c.RPCBatchLimit }),
		value("poll_interval", span(10*time.Millisecond, 10*time.Minute), "1s",
			"Time between two looks at the head of the chain; about half of its block time is good.",
			func(c *Chain) *time.Duration { return &c.PollInterval }),
		value("lag_grace", span(time.Second, time.Hour), "30s",
			"How long an endpoint that is behind the highest block seen is not believed. After it the chain is taken to have gone back.",
			func(c *Chain) *time.Duration { return &c.LagGrace }),
		value("confirmations", whole[uint64](1, 2000), "20",
			"Canonical blocks above the one with the receipt that make a transaction final.",
			func(c *Chain) *uint64 { return &c.Confirmations }),
		value("release_depth", orWord("final", whole[uint64](1, 2000)), "1",
			"Depth at which a strict submitter may take its next nonce. 1: as soon as the receipt is in a canonical block, whatever finality.tag says; 2: with one block above it, and so on. final, or as many as confirmations if those are more than 1: only when the transaction is final, by finality.tag too.",
			func(c *Chain) *uint64 { return &c.ReleaseDepth }),
		section(
			"protect",
			"When a submitter is put under PROTECT: no nonce is taken until an operator decides.",
			func(c *Chain) *Protect { return &c.Protect },
			value("lag_grace", span(time.Second, time.Hour), "60s",
				"How long the chain may lack transactions that the ledger has in blocks before that is no lag of an endpoint any more.",
				func(p *Protect) *time.Duration { return &p.LagGrace }),
		),
		section(
			"finality",
			"From where on the chain is taken to be beyond change.",
			func(c *Chain) *Finality { return &c.Finality },
			value("tag", oneOf("none", "safe", "finalized"), "none",
				"The block that the chain itself calls safe or finalized, above which nothing is final however many confirmations it has. none: confirmations alone. A chain whose nodes do not know the block is refused at start.",
				func(f *Finality) *string { return &f.Tag }),
			value("audit_depth", orZero(whole[uint64](1, MostAuditDepth)), "0",
				"Depth below which no reorg is believed possible: an operator can fail or requeue a transaction, and skip nonces, once they were used by somebody else that deep. At most as many blocks as a node keeps in memory of a chain, with which it compares. 0: four times confirmations, and no more than that.",
				func(f *Finality) *uint64 { return &f.AuditDepth }),
			value("tell_blocks", yesNo(), "false",
				"Whether each canonical block above the one with the receipt is told as an event of the transaction, with its hash.",
				func(f *Finality) *bool { return &f.TellBlocks }),
		),
		section(
			"prepare",
			"What happens to a transaction before it has a nonce.",
			func(c *Chain) *Prepare { return &c.Prepare },
			value("max_age", orZero(span(time.Second, 30*24*time.Hour)), "0",
				"How long the head of a queue may wait for funds, fees, the chain or the signer. After it the transaction fails, without a nonce, and the next one goes on. 0: for ever.",
				func(p *Prepare) *time.Duration { return &p.MaxAge }),
			value("simulate", oneOf("always", "without-gas-limit"), "always",
				"Which transactions are tried out on the newest state before they have a nonce. One that would revert then fails without a nonce. without-gas-limit: only those of which the gas has to be found out; one that brings its own limit is taken at its word, as long as that can be enough for its data, and if it reverts it does so on the chain, for a fee. That spares the chain most calls: prices are asked for once for each block, and the balance of an account that has plenty only now and then.",
				func(p *Prepare) *string { return &p.Simulate }),
		),
		section(
			"resubmit",
			"Handing the same bytes to the chain again while they are not included.",
			func(c *Chain) *Resubmit { return &c.Resubmit },
			value("interval", span(100*time.Millisecond, 24*time.Hour), "60s",
				"Time between two hand-overs.",
				func(r *Resubmit) *time.Duration { return &r.Interval }),
			value("max_attempts", whole(1, 1_000_000), "20",
				"Hand-overs after which a transaction is STUCK. It is still followed and handed over.",
				func(r *Resubmit) *int { return &r.MaxAttempts }),
			value("max_age", orZero(span(time.Second, 365*24*time.Hour)), "0",
				"Age of its first signed form after which a transaction that is in no block is STUCK as well, also when no node could be asked. It is still followed and handed over. 0: none.",
				func(r *Resubmit) *time.Duration { return &r.MaxAge }),
		),
		section(
			"gas_bump",
			"Offering more for a transaction that is not included: another signed form of the same nonce.",
			func(c *Chain) *GasBump { return &c.GasBump },
			gasBumpFields()...),
		section(
			"mempool",
			"Looking into the pools of nodes.",
			func(c *Chain) *Mempool { return &c.Mempool },
			value("diagnose", yesNo(), "false",
				"Whether a transaction is looked for in a node's pool before it is handed over again. What is found is shown, and is a hint: pools differ.",
				func(m *Mempool) *bool { return &m.Diagnose }),
		),
		section(
			"fees",
			"What transactions offer for a unit of gas.",
			func(c *Chain) *Fees { return &c.Fees },
			feeFields()...),
		section(
			"gas",
			"How much gas transactions may use.",
			func(c *Chain) *Gas { return &c.Gas },
			value("margin", number(1, 10), "1.2",
				"An estimate is multiplied by it. A limit that the caller gives is taken as it is.",
				func(g *Gas) *float64 { return &g.Margin }),
			value("max_limit", whole(0, 1<<40), "16777216",
				"The most gas of one transaction that the chain's pools take (EIP-7825); 0: no limit but the block's. A transaction above it fails before a nonce is taken.",
				func(g *Gas) *int { return &g.MaxLimit }),
		),
		files("abi_files",
			"JSON ABIs, or artifacts of compilers, of contracts that are called: the custom errors in them are told by name when a call would revert.",
			func(c *Chain) *[]string { return &c.ABIFiles }),
	}
}

func gasBumpFields() []field[GasBump] {
	return []field[GasBump]{
		value("enabled", yesNo(), "false",
			"Whether that happens by itself. Callers and operators can ask for it all the same, and a form that cancels offers more with time whatever is said here: one that does not may never be included.",
			func(g *GasBump) *bool { return &g.Enabled }),
		value("multiplier", number(1.1, 10), "1.125",
			"What both fees of the last form that a node took are multiplied by at least. Pools of go-ethereum take nothing below 1.1.",
			func(g *GasBump) *float64 { return &g.Multiplier }),
		value("min_interval", span(time.Second, 24*time.Hour), "60s",
			"The least time between two forms of a transaction, cancels too.",
			func(g *GasBump) *time.Duration { return &g.MinInterval }),
		value("max_attempts", whole(1, 1000), "10",
			"The most forms that are added by themselves; and of a transaction that is being cancelled, the most that are added to the first form that cancels.",
			func(g *GasBump) *int { return &g.MaxAttempts }),
		value("max_fee_cap_gwei", gwei("0"), "500",
			"The most that any form but the first offers in all, tip included: it counts in place of fees.max_fee_cap_gwei, beside the caps of the account and of the transaction. Where more would be needed the transaction is STUCK with the reason FEE_CAP_REACHED, and still handed over. 0: no limit.",
			func(g *GasBump) *uint256.Int { return &g.MaxFeeCap }),
	}
}

func feeFields() []field[Fees] {
	return []field[Fees]{
		value("history_blocks", whole(1, 1024), "10", "Newest blocks whose tips are looked at.",
			func(f *Fees) *int { return &f.HistoryBlocks }),
		value("percentile", number(1, 100), "50",
			"Percentile of the tips paid in them that is offered at the standard speed.",
			func(f *Fees) *float64 { return &f.Percentile }),
		value("slow_percentile", orZero(number(1, 100)), "0",
			"The same for the slow speed. 0: 25, or the standard one if that is lower.",
			func(f *Fees) *float64 { return &f.SlowPercentile }),
		value("fast_percentile", orZero(number(1, 100)), "0",
			"The same for the fast speed. 0: 75, or the standard one if that is higher. On a chain without base fees the fast speed offers a quarter more than the node's gas price, and the others that price.",
			func(f *Fees) *float64 { return &f.FastPercentile }),
		value("min_tip_gwei", gwei("0.000000001"), "0.001",
			"The least tip that is offered. Where the nodes of a chain insist on more, that is learned from the first refusal that names it, up to max_fee_cap_gwei.",
			func(f *Fees) *uint256.Int { return &f.MinTip }),
		value("min_price_gwei", gwei("0"), "0",
			"The least that is offered in all, as fee cap or gas price: for chains with a minimum price.",
			func(f *Fees) *uint256.Int { return &f.MinPrice }),
		value("max_fee_cap_gwei", gwei("0"), "500",
			"The most that is offered in all, tip included. 0: no limit.",
			func(f *Fees) *uint256.Int { return &f.MaxFeeCap }),
		value("fixed_price_gwei", optional(gwei("0")), "",
			"Send legacy transactions at this price, whatever the chain says: for private chains.",
			func(f *Fees) **uint256.Int { return &f.FixedPrice }),
	}
}

func submitterFields() []field[Submitter] {
	return []field[Submitter]{
		value("name", label(), "", "What callers and operators call it.",
			func(s *Submitter) *string { return &s.Name }).must().inFile(),
		value("chain", label(), "", "Name of its chain.",
			func(s *Submitter) *string { return &s.Chain }).must(),
		value("address", account(), "", "Address of the account.",
			func(s *Submitter) *common.Address { return &s.Address }).must(),
		value("signer", label(), "", "Name of the signer that holds its key.",
			func(s *Submitter) *string { return &s.Signer }).must(),
		value("mode", oneOf("strict"), "strict",
			"How many transactions may have a nonce before they are release_depth deep in the chain. strict: one at a time.",
			func(s *Submitter) *string { return &s.Mode }),
		value("start_from", matching(`"0", "chain" or a nonce`, `chain|0|[1-9][0-9]{0,17}`), "0",
			"The first nonce. 0 demands an account that never sent; chain goes on after what it sent; a number demands exactly that nonce.",
			func(s *Submitter) *string { return &s.StartFrom }),
		value(
			"on_failure",
			oneOf("continue", "pause"),
			"",
			"What happens when a transaction was included and reverted. continue, as when this is left out: the next one goes on; pause: the account is paused. For an account that is registered already the ledger's counts: fencepost submitter update changes it.",
			func(s *Submitter) *string { return &s.OnFailure },
		),
		value(
			"max_fee_gwei",
			optional(gwei("0")),
			"",
			"The most that anything of this account offers in all, below the limits of its chain. 0, as when this is left out: those alone. For an account that is registered already the ledger's counts: fencepost submitter update changes it.",
			func(s *Submitter) **uint256.Int { return &s.MaxFee },
		),
	}
}
