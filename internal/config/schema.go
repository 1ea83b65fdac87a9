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

func submitterFields() []field[Submitter] {
	return []field[Submitter]{
		value("name", label(), "", "The name that callers and operators use.",
			func(s *Submitter) *string { return &s.Name }).must().inFile(),
		value("chain", label(), "", "Name of its chain.",
			func(s *Submitter) *string { return &s.Chain }).must(),
		value("address", account(), "", "Address of the account.",
			func(s *Submitter) *common.Address { return &s.Address }).must(),
		value("signer", label(), "",
			"Name of the signer that holds its key. In mode external the key is needed only to "+
				"fill holes.",
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
