// Package wire is what the benchmark and the program of its node tell each other.
package wire

import "time"

// Config is what the benchmark tells a node, as JSON on its standard input.
type Config struct {
	Name          string
	Database      string
	Chain         string // URL
	ChainID       uint64
	Signer        string // what submitters call the holder of their keys
	Keys          string // the folder of its key files
	PasswordFile  string
	Confirmations uint64
	Poll          time.Duration
	Lease         time.Duration
	MaxQueued     int // in all; 0: no limit
}

// Ready is what the node answers on its standard output once it serves: the addresses of its API,
// and of what operators and the benchmark ask.
type Ready struct {
	GRPC, Debug string
}

// Memory is what the runtime of the node has counted, at MemoryPath.
type Memory struct {
	Mallocs, Bytes float64 // since it began
	Heap, Stacks   float64 // in use
}

// The paths below Ready.Debug.
const (
	MemoryPath   = "/debug/memory"
	ProfilesPath = "/debug/pprof/"
)
