// Package wire has the messages between the benchmark and the program of its node.
package wire

import "time"

// Config is the configuration of a node, as JSON on its standard input.
type Config struct {
	Name          string
	Database      string
	Chain         string // URL
	ChainID       uint64
	Signer        string // name of the signer
	Keys          string // the folder of its key files
	PasswordFile  string
	SignDelay     time.Duration // of each signature, as of a remote signer
	SignAtOnce    int           // max_in_flight of such a signer
	Confirmations uint64
	Poll          time.Duration
	Lease         time.Duration
	Mode          string        // lease.mode; empty: basic
	IdleAfter     time.Duration // 0: the default
	MaxQueued     int           // in all; 0: no limit
	Simulate      bool          // simulate drafts with a gas limit too, as by default
	Brokers       []string      // of a Kafka sink, topic and name SinkTopic; empty: no sink
	Policies      bool          // callers are FreeToken and LimitedToken
	Ledgers       []Ledger      // several, instead of Database
}

// Ledger is one of several ledgers.
type Ledger struct{ Name, URL string }

// SinkTopic is the topic, and the name, of the Kafka sink.
const SinkTopic = "events"

// The tokens of two callers that may use all submitters. The second has a policy that denies none
// of the transactions of the benchmark.
const (
	FreeToken    = "free-caller-of-the-benchmark"
	LimitedToken = "limited-caller-of-the-benchmark"
)

// Ready is the response of the node on its standard output once it serves: the addresses of its
// API, and of its operators' and debug listener.
type Ready struct {
	GRPC, Debug string
}

// Memory is the runtime statistics of the node, at MemoryPath.
type Memory struct {
	Mallocs, Bytes float64 // since it began
	Heap, Stacks   float64 // in use
}

// The paths below Ready.Debug.
const (
	MemoryPath   = "/debug/memory"
	ProfilesPath = "/debug/pprof/"
)
