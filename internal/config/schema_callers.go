package config

import (
	"time"
)

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
