// Package config reads the configuration of a node: one YAML file, then the environment, then --set
// flags. Later sources override earlier ones.
//
// One table, [schema], defines every key with its kind, default and description. The reader, the
// environment variable names, `fencepost config show` and docs/configuration.md are all derived
// from it, so they cannot disagree.
//
// The reader is strict. An unknown key is an error, because a misspelled limit would otherwise be
// missed until it is needed. The reader continues after an error and reports all problems at once
// ([Problems]), each with its location, cause and remedy. Conditions on several keys ([relations])
// are checked only if the keys are valid.
//
// Secrets have the type [Secret], which prints a redacted form. No error contains one.
package config

import (
	"fmt"
	"math"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

//go:generate go run ./reference ../../docs/configuration.md

// Config is the configuration of a node. The table of keys describes each field.
type Config struct {
	Node       Node
	GRPC       GRPC
	Issuers    []Issuer
	Callers    []Caller
	Intents    Intents
	Ops        Ops
	Console    Console
	NonceAPI   NonceAPI
	Database   Database
	Directory  Directory
	Ledgers    []Ledger // several; empty: the one in Database
	Lease      Lease
	Audit      Audit
	Retention  Retention
	Queue      Queue
	Commands   Commands
	Payload    Payload
	Watch      Watch
	Log        Log
	Tracing    Tracing
	Chains     []Chain
	Signers    []Signer
	Submitters []Submitter
	Sinks      []Sink
	Insecure   bool // accepts the risks that a node refuses otherwise

	Settings []Setting // every key with its effective value, in the order of the table

	elementPaths map[string][]string // paths of list elements, by list
	file         string
	ledgerName   string // see OfLedger
}

// Node is this process.
type Node struct{ Name string }

// GRPC is the listener for callers.
type GRPC struct {
	Listen                  string
	TLS                     TLS
	TokensFile              string
	ReloadInterval          time.Duration
	AllowedOrigins          []string
	AllowedHosts            []string
	MaxStreamsPerConnection uint32
	MaxCalls                int
	MaxConnections          int // 0: as many as the limit of open files allows
	MaxPerAddress           int // 0: half of the connections
	PingInterval            time.Duration
	PingTimeout             time.Duration
	StopGrace               time.Duration
}

// TLS configures encryption and client certificates. All fields empty: plain text.
type TLS struct{ CertFile, KeyFile, ClientCAFile string }

// Caller is a client identity: its credentials and its rights.
type Caller struct {
	Name         string
	TokensFile   string
	JWT          []string // ISSUER:CLAIM=VALUE
	Certificates []string
	Submitters   []string // names; "*": all
	Pools        []string // names
	Role         string   // "caller" or "operator"
	Nonces       bool     // may reserve nonces
	Approve      bool     // may approve transactions of other callers
	Weight       int
	Rate         float64 // calls a second; 0: no limit
	Policy       CallerPolicy
}

// Operator reports whether the caller has the rights of an operator.
func (c Caller) Operator() bool { return c.Role == "operator" }

// Ops is the listener for operators.
type Ops struct {
	Listen       string
	AllowedHosts []string
}

// Database configures the PostgreSQL database that holds the ledger.
type Database struct {
	URL               Secret // from URLFile if that is set
	URLFile           string
	Schema            string
	MaxConnections    int
	CommitConnections int
	StatementTimeout  time.Duration
}

// Lease configures how nodes share the submitters.
type Lease struct {
	Mode            string
	Duration        time.Duration
	RenewInterval   time.Duration
	SweepInterval   time.Duration
	IdleAfter       time.Duration
	ProgressTimeout time.Duration
	MaxOwned        int
}

// Audit configures the periodic check of the ledger.
type Audit struct{ Interval time.Duration } // 0: none

// Queue configures how owners notice new work, and the queue limits.
type Queue struct {
	PollInterval    time.Duration
	MaxPerSubmitter int // 0: no limit
	MaxTotal        int // 0: no limit
}

// Commands configures how calls wait until an owner has applied a command.
type Commands struct {
	Wait         time.Duration
	PollInterval time.Duration
}

// Payload limits the payloads of transactions.
type Payload struct{ MaxBytes int }

// Watch is the event feed.
type Watch struct {
	PollInterval time.Duration
	MinGap       time.Duration
	RingEvents   int
	PageEvents   int
	OutageGrace  time.Duration
	MaxStreams   int
}

// Log configures the node's log.
type Log struct{ Level, Format string }

// Chain is an EVM chain.
type Chain struct {
	Name           string
	ChainID        uint64
	Profile        string
	Genesis        common.Hash // zero: taken from the first endpoint that answers
	RPC            []Secret
	RPCTimeout     time.Duration
	RPCMaxInFlight int
	RPCBatchLimit  int
	PollInterval   time.Duration
	LagGrace       time.Duration
	Confirmations  uint64
	ReleaseDepth   uint64 // 0: once the transaction is final
	AllowCode      []common.Address
	Protect        Protect
	Finality       Finality
	Prepare        Prepare
	Resubmit       Resubmit
	GasBump        GasBump
	Mempool        Mempool
	Fees           Fees
	Gas            Gas
	ABIFiles       []string
	Balance        Balance
}

// Protect configures when a submitter is put under PROTECT.
type Protect struct{ LagGrace time.Duration }

// Finality configures when the chain is considered unchangeable.
type Finality struct {
	Tag        string // "none", "safe" or "finalized"
	AuditDepth uint64 // 0: four times the confirmations
	TellBlocks bool
}

// Block returns the block tag above which nothing is final; empty: confirmations alone decide.
func (f Finality) Block() string {
	if f.Tag == "none" {
		return ""
	}
	return f.Tag
}

// Depth returns the effective audit depth, in blocks.
func (f Finality) Depth(confirmations uint64) uint64 {
	if f.AuditDepth == 0 {
		return min(4*confirmations, MaxAuditDepth)
	}
	return f.AuditDepth
}

// Prepare configures the preparation of the head of a queue, before it takes a nonce.
type Prepare struct {
	MaxAge   time.Duration // 0: no limit
	Simulate string        // always, or without-gas-limit
}

// TrustsGasLimits reports whether transactions with their own gas limit skip simulation.
func (p Prepare) TrustsGasLimits() bool { return p.Simulate == "without-gas-limit" }

// GasBump configures automatic fee bumping.
type GasBump struct {
	Enabled     bool
	Multiplier  float64
	MinInterval time.Duration
	MaxAttempts int
	Budget      int
	MaxFeeCap   uint256.Int // wei for each unit of gas; zero: no limit
}

// Permille returns the multiplier in thousandths.
func (g GasBump) Permille() uint64 { return uint64(math.Round(g.Multiplier * 1000)) }

// Mempool configures the inspection of nodes' pools.
type Mempool struct{ Diagnose bool }

// Resubmit configures rebroadcasting.
type Resubmit struct {
	MaxAge      time.Duration // 0: none
	Interval    time.Duration
	MaxAttempts int
}

// Fees configures the fees of transactions. Amounts are in wei per unit of gas.
type Fees struct {
	HistoryBlocks  int
	Percentile     float64
	SlowPercentile float64 // 0: as the connector chooses
	FastPercentile float64 // 0: as the connector chooses
	MinTip         uint256.Int
	MinPrice       uint256.Int
	MaxFeeCap      uint256.Int
	FixedPrice     *uint256.Int // nil: from the chain
	L1Fee          string       // none, or op-stack
}

// L1FeeSource returns the source of the fees that a rollup charges in addition to gas; empty: none.
func (f Fees) L1FeeSource() string {
	if f.L1Fee == "none" {
		return ""
	}
	return f.L1Fee
}

// Gas configures the gas limits of transactions.
type Gas struct {
	Margin   float64
	MaxLimit int // 0: none
}

// Submitter is an account to send from, registered when the node starts.
type Submitter struct {
	Name    string
	Chain   string
	Address common.Address
	Signer  string
	Mode    string // empty: not set
	// of mode pipelined; 0: the default
	MaxInFlight int
	StartFrom   string
	Ledger      string       // empty: the first
	OnFailure   string       // empty: not set
	MaxFee      *uint256.Int // wei per unit of gas; zero: no limit of its own; nil: not set
}

// Setting is one key with its effective value. Secrets are redacted.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // "file:line", "environment NAME", "--set" or "default"
}

// Path returns the path of a list element in problems: by its name, or by its index if the name is
// invalid.
func (c *Config) Path(list string, i int) string {
	if all := c.elementPaths[list]; i < len(all) {
		return all[i]
	}
	return fmt.Sprintf("%s[%d]", list, i)
}
