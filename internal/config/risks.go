package config

import (
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Risk is a setting that gives access to others than intended.
type Risk struct {
	Key    string // of the setting
	What   string
	Remedy string
	// Refused settings need insecure: true; the others are warned about.
	Refused bool
}

// Risks returns the risks of a configuration: exposed listeners, connections without encryption,
// and files that other users of the machine can change.
func (c *Config) Risks() (risks []Risk) {
	risks = append(risks, c.listenerRisks()...)
	risks = append(risks, c.databaseRisks()...)
	risks = append(risks, c.endpointRisks()...)
	risks = append(risks, c.signerRisks()...)
	risks = append(risks, c.sinkRisks()...)
	return append(risks, c.fileRisks()...)
}

// Authenticates reports whether a call needs a token or a certificate.
func (c *Config) Authenticates() bool {
	return c.GRPC.TokensFile != "" || c.GRPC.TLS.ClientCAFile != "" || len(c.Callers) > 0
}

func (c *Config) listenerRisks() (risks []Risk) {
	open := !c.Authenticates()
	if open && c.GRPC.Listen != "" && !c.GRPC.Loopback() {
		risks = append(risks, Risk{"grpc.listen",
			"clients without credentials can send from every account",
			"set callers, grpc.tokens_file or grpc.tls.client_ca_file, or listen on 127.0.0.1",
			true})
	}
	if slices.Contains(c.GRPC.AllowedOrigins, "*") {
		risks = append(risks, Risk{"grpc.allowed_origins",
			`with "*" the pages of every web site can call this node`,
			"list the origins of your own pages", open})
	}
	for _, l := range []struct {
		key   string
		names []string
		open  bool
	}{{"grpc.allowed_hosts", c.GRPC.AllowedHosts, open},
		{"ops.allowed_hosts", c.Ops.AllowedHosts, true}} {
		if l.open && slices.Contains(l.names, "*") {
			risks = append(risks, Risk{l.key,
				`with "*" the pages of a hostile web site can read this node (DNS rebinding)`,
				"list the host names of the node", false})
		}
	}
	if c.Ops.Listen != "" && !(GRPC{Listen: c.Ops.Listen}).Loopback() {
		risks = append(risks, Risk{"ops.listen",
			"metrics are served to other machines without authentication",
			"listen on 127.0.0.1, or keep the port within a private network", false})
	}
	return risks
}

func (c *Config) databaseRisks() (risks []Risk) {
	risks = databaseRisks("database.url", c.Database.URL)
	for i, l := range c.Ledgers {
		risks = append(risks, databaseRisks(c.Path("ledgers", i)+".url", l.URL)...)
	}
	return append(risks, databaseRisks("directory.url", c.Directory.URL)...)
}

func databaseRisks(key string, database Secret) []Risk {
	text := database.Reveal()
	if text == "" {
		return nil
	}
	parsed, err := url.Parse(text)
	if err != nil || !remoteDatabase(parsed) {
		return nil
	}
	switch mode := parsed.Query().Get("sslmode"); mode {
	case "disable", "allow", "prefer":
		return []Risk{{key,
			fmt.Sprintf("sslmode=%s sends the ledger and the password unencrypted", mode),
			"use sslmode=verify-full", true}}
	case "require":
		return []Risk{{key,
			"sslmode=require accepts the certificate of any server",
			"use sslmode=verify-full", false}}
	}
	return nil
}

func (c *Config) endpointRisks() (risks []Risk) {
	for i, chain := range c.Chains {
		for _, endpoint := range chain.RPC {
			u, err := url.Parse(endpoint.Reveal())
			if err == nil && (u.Scheme == "http" || u.Scheme == "ws") && !local(u.Hostname()) {
				risks = append(risks, Risk{c.Path("chains", i) + ".rpc",
					"an endpoint on another machine is reached without encryption",
					"use https or wss", false})
				break
			}
		}
	}
	return risks
}

// fileRisks looks at the files and folders that other users of the machine could change.
func (c *Config) fileRisks() (risks []Risk) {
	for i, signer := range c.Signers {
		if signer.KeyStore != nil {
			key := c.Path("signers", i) + ".keystore.dir"
			risks = append(risks, writableRisk(key, signer.KeyStore.Dir)...)
		}
	}
	return append(risks, writableRisk("configuration", c.file)...)
}

func writableRisk(key, path string) []Risk {
	if bits, ok := mode(path); ok && bits&0o022 != 0 && !readOnly(path) {
		return []Risk{{key, fmt.Sprintf("other users of this machine can write to %s", path),
			"chmod go-w " + path, true}}
	}
	return nil
}

// mode returns the permissions of a file; ok is false where they cannot be read.
func mode(path string) (bits fs.FileMode, ok bool) {
	if path == "" {
		return 0, false
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	return info.Mode().Perm(), true
}

// local reports whether a host is this machine.
func local(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// relateRisks refuses the dangerous settings, unless insecure accepts them.
func relateRisks(r *reader, c *Config) {
	if c.Insecure {
		return
	}
	for _, risk := range c.Risks() {
		if risk.Refused && r.good(risk.Key) {
			r.problem(r.origins[risk.Key], risk.Key, risk.What,
				risk.Remedy+", or accept the risk with insecure: true")
		}
	}
}

// DatabaseURL parses the URL of a PostgreSQL database, as the key database.url does: the connection
// to another machine is encrypted and verified unless the URL disables that. The error does not
// quote the URL.
func DatabaseURL(text string) (Secret, error) { return postgres().parse(text) }

// secured completes the URL of a database on another machine: without an sslmode, the server's
// certificate is verified, and a server that is not verified gets no password in plain text.
// pgx itself would fall back to an unencrypted connection, as libpq does.
func secured(u *url.URL) {
	if !remoteDatabase(u) {
		return
	}
	query := u.Query()
	if !query.Has("sslmode") {
		query.Set("sslmode", "verify-full")
	}
	if query.Get("sslmode") != "verify-full" && !query.Has("require_auth") {
		query.Set("require_auth", "scram-sha-256")
	}
	u.RawQuery = query.Encode()
}

// remoteDatabase reports whether one of the hosts of a database URL is another machine.
func remoteDatabase(u *url.URL) bool {
	// Only the hosts are of interest, and files that the URL names need not exist yet.
	bare := *u
	bare.RawQuery = ""
	if host := u.Query().Get("host"); host != "" {
		bare.RawQuery = url.Values{"host": {host}}.Encode()
	}
	cfg, err := pgx.ParseConfig(bare.String())
	if err != nil {
		return true
	}
	remote := func(host string) bool { return !strings.HasPrefix(host, "/") && !local(host) }
	for _, other := range cfg.Fallbacks {
		if remote(other.Host) {
			return true
		}
	}
	return remote(cfg.Host)
}
