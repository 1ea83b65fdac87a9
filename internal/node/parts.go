package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/engine"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/hosts"
	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/server"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// checkKeys rejects a configured submitter whose key is missing.
func checkKeys(ctx context.Context, cfg *config.Config, book *sign.Book) error {
	for _, s := range cfg.Submitters {
		if !needsKey(s) {
			continue
		}
		held, err := book.Addresses(ctx, s.Signer)
		if err != nil {
			return fmt.Errorf("submitter %q: %w", s.Name, err)
		}
		if !slices.Contains(held, s.Address) {
			return fmt.Errorf("submitter %q: %w", s.Name, noKey(s))
		}
	}
	return nil
}

// needsKey reports whether Fencepost signs for the account. In mode external only holes are filled
// with its key, if there is one.
func needsKey(s config.Submitter) bool { return s.Mode != "external" }

func noKey(s config.Submitter) error {
	return remedy.Errorf("import it with \"fencepost key import\", or correct the address",
		"signer %q has no key for %s", s.Signer, s.Address.Hex())
}

func openStore(ctx context.Context, cfg *config.Config, name string, log *slog.Logger,
	intentKey []byte, directory *store.Store) (*store.Store, error) {
	return store.Open(ctx, store.Config{
		URL: cfg.Database.URL.Reveal(), Schema: cfg.Database.Schema, Keys: KeysOf(cfg), Node: name,
		LeaseDuration:    cfg.Lease.Duration,
		StatementTimeout: cfg.Database.StatementTimeout, APIConns: cfg.Database.MaxConnections,
		CommitConns: cfg.Database.CommitConnections,
		Logger:      log,
		IntentKey:   intentKey,
		MaxQueued:   cfg.Queue.MaxPerSubmitter, MaxQueuedTotal: cfg.Queue.MaxTotal,
		Directory: directory,
	})
}

// KeysOf names the configuration of the database of a ledger.
func KeysOf(cfg *config.Config) store.Keys {
	name := cfg.LedgerName()
	if name == "" {
		return store.Keys{}
	}
	return store.Keys{Section: "ledgers." + name, Flag: "--ledger " + name}
}

// OpenDirectory opens the directory of ledgers; nil: none is configured. It connects when it is
// first asked.
func OpenDirectory(ctx context.Context, cfg *config.Config, name string,
	log *slog.Logger) (*store.Store, error) {
	if cfg.Directory.URL.Reveal() == "" {
		return nil, nil
	}
	return store.Open(ctx, store.Config{URL: cfg.Directory.URL.Reveal(),
		Schema: cfg.Directory.Schema,
		Keys:   store.Keys{Section: "directory", Flag: "--directory"},
		Node:   name, APIConns: directoryConns, Logger: log})
}

// directoryConns is how many registrations of a node ask the directory at the same time.
const directoryConns = 2

func openChains(ctx context.Context, cfg *config.Config, s *store.Store,
	log *slog.Logger) ([]*boundChain, error) {
	var chains []*boundChain
	for _, c := range cfg.Chains {
		contracts, err := chain.LoadErrors(c.ABIFiles...)
		if err != nil {
			return chains, fmt.Errorf("chain %q: %w", c.Name, err)
		}
		client, err := chain.Dial(ctx, chainOptions(c, contracts, log))
		if err != nil {
			return chains, fmt.Errorf("chain %q: %w", c.Name, err)
		}
		bound := &boundChain{
			Client: client,
			store:  s,
			name:   c.Name,
			tag:    c.Finality.Block(),
			log:    log,
		}
		chains = append(chains, bound)
		if err := bound.bindAtStart(ctx); err != nil {
			return chains, err
		}
	}
	return chains, nil
}

func chainOptions(c config.Chain, contracts *outcome.Errors, log *slog.Logger) chain.Options {
	endpoints := make([]string, 0, len(c.RPC))
	for _, url := range c.RPC {
		endpoints = append(endpoints, url.Reveal())
	}
	return chain.Options{
		Name: c.Name, ChainID: txn.ChainID(c.ChainID), Genesis: c.Genesis, Endpoints: endpoints,
		Timeout: c.RPCTimeout, MaxInFlight: c.RPCMaxInFlight,
		BatchLimit: c.RPCBatchLimit, GasMargin: c.Gas.Margin,
		TrustGasLimits: c.Prepare.TrustsGasLimits(), LagGrace: c.LagGrace, Logger: log,
		Errors: contracts,
		Fees:   feeOptions(c),
	}
}

func feeOptions(c config.Chain) chain.FeeOptions {
	return chain.FeeOptions{
		HistoryBlocks: c.Fees.HistoryBlocks, Percentile: c.Fees.Percentile,
		SlowPercentile: c.Fees.SlowPercentile, FastPercentile: c.Fees.FastPercentile,
		MinTip: c.Fees.MinTip, MinPrice: c.Fees.MinPrice, MaxFee: c.Fees.MaxFeeCap,
		FixedPrice: c.Fees.FixedPrice, MaxGas: uint64(c.Gas.MaxLimit),
		L1Fee: c.Fees.L1FeeSource(),
	}
}

// policy is the policy in the configuration of a chain.
func policy(c config.Chain) txn.Policy {
	bump := c.GasBump
	return txn.Policy{
		Confirmations: c.Confirmations, ReleaseDepth: c.ReleaseDepth,
		AuditDepth: c.Finality.Depth(c.Confirmations), LagGrace: c.Protect.LagGrace,
		ReportConfirmations: c.Finality.TellBlocks, PrepareMaxAge: c.Prepare.MaxAge,
		ResubmitInterval: c.Resubmit.Interval, ResubmitMax: c.Resubmit.MaxAttempts,
		ResubmitMaxAge: c.Resubmit.MaxAge,
		Diagnose:       c.Mempool.Diagnose, BumpPermille: bump.Permille(),
		BumpBudget: bump.Budget, BumpMaxFee: bump.MaxFeeCap, MaxFee: c.Fees.MaxFeeCap,
		FixedPrice: c.Fees.FixedPrice != nil, AllowCode: c.AllowCode,
		Bump: txn.DefaultBumpPolicy{
			Enabled:     bump.Enabled,
			MinInterval: bump.MinInterval,
			MaxAttempts: bump.MaxAttempts,
		},
	}
}

func (n *Node) newEngine(l *ledger) (*engine.Engine, error) {
	o := engine.Options{
		Store: l.store, Signer: traceSigner(n.book, n.traces.Tracer("sign")),
		Clock: clock.Real{}, Logger: l.plain,
		Meter:         l.metrics.Meter("engine"),
		Tracer:        n.traces.Tracer("engine"),
		LeaseDuration: n.cfg.Lease.Duration, RenewInterval: n.cfg.Lease.RenewInterval,
		SweepInterval: n.cfg.Lease.SweepInterval,
		IdleAfter:     n.cfg.Lease.IdleAfter, MaxSubmitters: n.cfg.Lease.MaxOwned,
		PollInterval: n.cfg.Queue.PollInterval,
		Mode:         engine.Mode(n.cfg.Lease.Mode), ProgressTimeout: n.cfg.Lease.ProgressTimeout,
		AuditInterval: n.cfg.Audit.Interval,
		KeepSigned:    n.cfg.Retention.RawTx == config.KeepRawTx,
		Stuck:         n.extras.Stuck,
		Refuse:        n.policies.refuse,
	}
	if n.cfg.Audit.Interval == 0 {
		o.AuditInterval = engine.NoAudit
	}
	for i, c := range n.cfg.Chains {
		policy := n.extras.policy(c)
		policy.External = txn.ExternalPolicy{
			ReconcileInterval: n.cfg.NonceAPI.ReconcileInterval,
			HardMaxAge:        n.cfg.NonceAPI.HardMaxAge,
		}
		if n.cfg.NonceAPI.FillHoles {
			policy.External.FillAfter = n.cfg.NonceAPI.FillAfter
		}
		o.Chains = append(o.Chains, engine.ChainOptions{
			Name: c.Name, PollInterval: c.PollInterval,
			Chain:    traceChain(n.extras.chain(l.chains[i]), n.traces.Tracer("chain")),
			Policy:   policy,
			FinalTag: c.Finality.Block(),
		})
	}
	return engine.New(o)
}

func (n *Node) newServer(name, version string) (*server.Server, error) {
	o := server.Options{
		TLS: n.reloader.serverTLS(), Tokens: n.reloader.first.tokens,
		Callers:        n.reloader.first.callers,
		Issuers:        n.issuers,
		Logger:         n.log,
		MeterProvider:  n.metrics.Provider(),
		TracerProvider: n.traces.Provider(),
		Node:           name,
		Version:        version,
		ChainStatus:    n.serverChains,
		Balances:       n.balances,
		Simulate:       n.simulate,
		Signers:        n.book.Names(),
		Console:        n.cfg.Console.Enabled,
		Nonces: server.NonceOptions{
			Enabled: n.cfg.NonceAPI.Enabled, DefaultTTL: n.cfg.NonceAPI.DefaultTTL,
			MaxTTL: n.cfg.NonceAPI.MaxTTL,
		},
		AllowedOrigins: n.cfg.GRPC.AllowedOrigins,
		AllowedHosts:   hostNames(n.cfg.GRPC.Listen, n.cfg.GRPC.AllowedHosts),
		Certificate:    n.reloader.certificate,
		Limits: server.Limits{
			PayloadBytes:         n.cfg.Payload.MaxBytes,
			StreamsPerConnection: n.cfg.GRPC.MaxStreamsPerConnection, Grace: n.cfg.GRPC.StopGrace,
			PingAfter: n.cfg.GRPC.PingInterval, PingTimeout: n.cfg.GRPC.PingTimeout,
			CommandWait: n.cfg.Commands.Wait, CommandPoll: n.cfg.Commands.PollInterval,
			RingEvents: n.cfg.Watch.RingEvents, PageEvents: n.cfg.Watch.PageEvents,
			FeedPoll: n.cfg.Watch.PollInterval, FeedGap: n.cfg.Watch.MinGap,
			Outage: n.cfg.Watch.OutageGrace, Calls: n.cfg.GRPC.MaxCalls,
			Watches:              n.cfg.Watch.MaxStreams,
			Connections:          maxConnections(n.cfg, openFiles(), n.log),
			ConnectionsPerSource: n.cfg.GRPC.MaxPerAddress,
		},
	}
	for _, c := range n.cfg.Chains {
		o.Chains = append(o.Chains, txn.ChainID(c.ChainID))
	}
	for _, l := range n.ledgers {
		if l.name == "" {
			o.Store, o.Tail = l.store, l.store.TailFeed()
			continue
		}
		o.Ledgers = append(o.Ledgers, server.Ledger{Name: l.name, Store: l.store,
			Tail: l.store.TailFeed(), MeterProvider: l.metrics.Provider()})
	}
	return server.New(o)
}

// hostNames are the names of a listener: the one that it listens on, and the allowed ones.
func hostNames(listen string, allowed []string) hosts.Names {
	names := hosts.Names{hosts.Host(listen)}
	for _, name := range allowed {
		names = append(names, hosts.Host(name))
	}
	return names
}

// registration is the registration of a configured submitter.
func registration(cfg *config.Config, s config.Submitter) store.Registration {
	r := store.Registration{
		Name:      s.Name,
		Address:   s.Address,
		Signer:    s.Signer,
		Mode:      txn.Strict,
		AnyMode:   true,
		StartFrom: s.StartFrom,
	}
	if s.Mode != "" {
		r.Mode = txn.Mode(strings.ToUpper(s.Mode))
	}
	r.MaxInFlight = s.MaxInFlight
	for _, c := range cfg.Chains {
		if c.Name == s.Chain {
			r.Chain = txn.ChainID(c.ChainID)
		}
	}
	r.OnFailure = txn.OnFailure(strings.ToUpper(s.OnFailure))
	if s.MaxFee != nil {
		r.MaxFee = *s.MaxFee
	}
	return r
}

// differing lists the configured policies that differ from the ledger.
func differing(s config.Submitter, is txn.Submitter) (keys []string) {
	if s.OnFailure != "" && txn.OnFailure(strings.ToUpper(s.OnFailure)) != is.OnFailure {
		keys = append(keys, "on_failure")
	}
	if s.Mode != "" && txn.Mode(strings.ToUpper(s.Mode)) != is.Mode {
		keys = append(keys, "mode")
	}
	if s.MaxInFlight != 0 && s.MaxInFlight != is.Limit {
		keys = append(keys, "max_in_flight")
	}
	if s.MaxFee != nil && !s.MaxFee.Eq(&is.MaxFee) {
		keys = append(keys, "max_fee_gwei")
	}
	return keys
}
