// Package config reads the configuration of a node: one YAML file, the environment, and --set flags, the later over the earlier.
//
// One table, [schema], has every key with its kind, default and meaning. The reader, the names of the environment variables, `fencepost config show` and
// docs/configuration.md all come from it, so none of them can know a key that the others do not.
//
// The reader is strict. A key that it does not know is an error, because a misspelled limit that is silently not there shows only when it is needed. It goes
// on after an error and reports everything that is wrong at once ([Problems]), each with its place, what is wrong and what to do about it; relations between
// keys ([relations]) are judged only where the keys themselves are right.
//
// Secrets are of the type [Secret], which prints as something else, and no error quotes one.
package config

import (
	"fmt"
	"math"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

//go:generate go run ./reference ../../docs/configuration.md

// Config is the configuration of a node. What each field means is in the table of keys.
type Config struct {
	Node       Node
	GRPC       GRPC
	Callers    []Caller
	Ops        Ops
	Database   Database
	Lease      Lease
	Audit      Audit
	Queue      Queue
	Commands   Commands
	Payload    Payload
	Watch      Watch
	Log        Log
	Chains     []Chain
	Signers    []Signer
	Submitters []Submitter
	Insecure   bool // accepts the risks that a node refuses otherwise

	Settings []Setting // every key as it is in force, in the order of the table

	elementPaths map[string][]string // of a list of sections that was read
	file         string
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
	MaxStreamsPerConnection uint32
	MaxCalls                int
	PingInterval            time.Duration
	PingTimeout             time.Duration
	StopGrace               time.Duration
}

// TLS is who the node is to its callers, and whom it lets in by their certificates; all empty: plain text.
type TLS struct{ CertFile, KeyFile, ClientCAFile string }

// Caller is somebody who may call, how it is known, and what it may do.
type Caller struct {
	Name         string
	TokensFile   string
	Certificates []string
	Submitters   []string // names; "*": all
	Role         string   // "caller" or "operator"
}

// Operator tells whether it may decide what operators decide.
func (c Caller) Operator() bool { return c.Role == "operator" }

// Ops is the listener for operators.
type Ops struct{ Listen string }

// Database is the PostgreSQL that holds the ledger.
type Database struct {
	URL              Secret // also when it was read from URLFile
	URLFile          string
	Schema           string
	MaxConnections   int
	StatementTimeout time.Duration
}

// Lease is how nodes divide the submitters among themselves.
type Lease struct {
	Mode            string
	Duration        time.Duration
	RenewInterval   time.Duration
	SweepInterval   time.Duration
	IdleAfter       time.Duration
	ProgressTimeout time.Duration
	MaxOwned        int
}

// Audit is the standing check of the ledger.
type Audit struct{ Interval time.Duration } // 0: none

// Queue is how an owner notices work that others wrote into the ledger, and how much of it may wait there.
type Queue struct {
	PollInterval    time.Duration
	MaxPerSubmitter int // 0: no limit
	MaxTotal        int // 0: no limit
}

// Commands is how a call waits until an owner has applied a command.
type Commands struct {
	Wait         time.Duration
	PollInterval time.Duration
}

// Payload limits what callers may ask for.
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

// Log is what a node tells about itself.
type Log struct{ Level, Format string }

// Chain is an EVM chain.
type Chain struct {
	Name           string
	ChainID        uint64
	Genesis        common.Hash // zero: taken from the first endpoint that answers
	RPC            []Secret
	RPCTimeout     time.Duration
	RPCMaxInFlight int
	RPCBatchLimit  int
	PollInterval   time.Duration
	LagGrace       time.Duration
	Confirmations  uint64
	ReleaseDepth   uint64 // 0: only what is final releases its nonce
	Protect        Protect
	Finality       Finality
	Prepare        Prepare
	Resubmit       Resubmit
	GasBump        GasBump
	Mempool        Mempool
	Fees           Fees
	Gas            Gas
	ABIFiles       []string
}

// Protect is when a submitter is put under PROTECT.
type Protect struct{ LagGrace time.Duration }

// Finality is from where on the chain is taken to be beyond change.
type Finality struct {
	Tag        string // "none", "safe" or "finalized"
	AuditDepth uint64 // 0: four times the confirmations
	TellBlocks bool
}

// Block is the tag of the block above which nothing is final; empty: depth alone decides.
func (f Finality) Block() string {
	if f.Tag == "none" {
		return ""
	}
	return f.Tag
}

// Depth is the audit depth in force.
func (f Finality) Depth(confirmations uint64) uint64 {
	if f.AuditDepth == 0 {
		return min(4*confirmations, MostAuditDepth)
	}
	return f.AuditDepth
}

// Prepare is what happens to the head of a queue before it has a nonce.
type Prepare struct {
	MaxAge   time.Duration // 0: it may wait for ever
	Simulate string        // always, or without-gas-limit
}

// TrustsGasLimits tells whether a transaction that brings its gas limit is not simulated.
func (p Prepare) TrustsGasLimits() bool { return p.Simulate == "without-gas-limit" }

// GasBump is when a transaction that is not included offers more.
type GasBump struct {
	Enabled     bool
	Multiplier  float64
	MinInterval time.Duration
	MaxAttempts int
	MaxFeeCap   uint256.Int // wei for each unit of gas; zero: no limit
}

// Permille is the multiplier in thousandths.
func (g GasBump) Permille() uint64 { return uint64(math.Round(g.Multiplier * 1000)) }

// Mempool is what is looked for in the pools of nodes.
type Mempool struct{ Diagnose bool }

// Resubmit is how often the same bytes are handed to a chain again.
type Resubmit struct {
	MaxAge      time.Duration // 0: none
	Interval    time.Duration
	MaxAttempts int
}

// Fees is what transactions offer for gas. Amounts are wei for each unit of gas.
type Fees struct {
	HistoryBlocks  int
	Percentile     float64
	SlowPercentile float64 // 0: as the connector chooses
	FastPercentile float64 // 0: as the connector chooses
	MinTip         uint256.Int
	MinPrice       uint256.Int
	MaxFeeCap      uint256.Int
	FixedPrice     *uint256.Int // nil: as the chain says
}

// Gas is how much gas transactions may use.
type Gas struct {
	Margin   float64
	MaxLimit int // 0: none
}

// Signer is a holder of keys.
type Signer struct {
	Name     string
	Timeout  time.Duration
	KeyStore KeyStore
}

// KeyStore is a folder of key files.
type KeyStore struct{ Dir, PasswordFile string }

// Submitter is an account to send from, registered when the node starts.
type Submitter struct {
	Name      string
	Chain     string
	Address   common.Address
	Signer    string
	Mode      string
	StartFrom string
	OnFailure string       // empty: the key is left out
	MaxFee    *uint256.Int // wei for each unit of gas, zero: no limit of its own; nil: the key is left out
}

// Setting is one key as it is in force. The value of a secret is redacted.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // "file:line", "environment NAME", "--set" or "default"
}

// Path is what problems call an element of a list: by its name, or by its place where the name is not good.
func (c *Config) Path(list string, i int) string {
	if all := c.elementPaths[list]; i < len(all) {
		return all[i]
	}
	return fmt.Sprintf("%s[%d]", list, i)
}
