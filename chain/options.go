package chain

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/fencepost/fencepost/chain/outcome"
	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/txn"
)

// Options configure a client. Zero values mean the default named with each field.
type Options struct {
	Name    string      // the chain's name in configuration, errors and logs
	ChainID txn.ChainID // EIP-155 chain id that every endpoint must report
	// hash of block 0 that every endpoint must report; zero takes the first endpoint's
	Genesis     txn.Hash
	Endpoints   []string      // http, https, ws or wss addresses in order of preference
	Timeout     time.Duration // for one call to one endpoint; 10 s
	MaxInFlight int           // concurrent calls per endpoint; 100
	BatchLimit  int           // calls in one JSON-RPC batch; 100
	GasMargin   float64       // factor applied to estimates; 1.2
	// TrustGasLimits skips the simulation of drafts with their own gas limit. Such drafts may
	// revert or run out of gas on chain.
	TrustGasLimits bool
	// LagGrace is how long a head below the highest known one is ignored if no endpoint has a newer
	// one. After that the chain counts as reorganized. 30 s.
	LagGrace time.Duration
	Fees     FeeOptions
	Errors   *outcome.Errors // custom errors of contracts, for revert reasons; nil means none
	Clock    clock.Clock     // defaults to the system clock
	Logger   *slog.Logger    // defaults to discarding

	maxAnswer int64 // bytes of one response; tests lower it
}

// FeeOptions bound the fees of a quote. Amounts are in wei per unit of gas.
type FeeOptions struct {
	HistoryBlocks  int      // blocks of eth_feeHistory; 10
	Percentile     float64  // of the tips paid in these blocks; 50
	SlowPercentile float64  // for the speed SLOW; 25, or Percentile if lower
	FastPercentile float64  // for the speed FAST; 75, or Percentile if higher
	MinTip         txn.Wei  // minimum tip; 1,000,000, the default of go-ethereum's miners
	MinPrice       txn.Wei  // minimum fee cap and gas price; zero means none
	MaxFee         txn.Wei  // maximum fee cap and gas price; zero means none
	FixedPrice     *txn.Wei // legacy transactions at this price; nil is off
	// maximum gas of one transaction in the chain's pools, 16,777,216 since EIP-7825; 0 is no limit
	MaxGas uint64
	// source of the fees that a rollup charges beside gas: OPStack, or empty for none
	L1Fee string
}

const (
	defaultTimeout       = 10 * time.Second
	defaultMaxInFlight   = 100
	defaultBatchLimit    = 100
	defaultGasMargin     = 1.2
	defaultLagGrace      = 30 * time.Second
	defaultHistoryBlocks = 10
	defaultPercentile    = 50
	defaultSlow          = 25
	defaultFast          = 75
	defaultMinTip        = 1_000_000

	maxHistoryBlocks = 1024 // the most that go-ethereum returns
	maxGasMargin     = 10
)

func (o Options) withDefaults() Options {
	o.Timeout = orDefault(o.Timeout, defaultTimeout)
	o.MaxInFlight = orDefault(o.MaxInFlight, defaultMaxInFlight)
	o.BatchLimit = orDefault(o.BatchLimit, defaultBatchLimit)
	o.GasMargin = orDefault(o.GasMargin, defaultGasMargin)
	o.LagGrace = orDefault(o.LagGrace, defaultLagGrace)
	o.Fees = o.Fees.withDefaults()
	o.maxAnswer = orDefault(o.maxAnswer, maxAnswer)
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (f FeeOptions) withDefaults() FeeOptions {
	f.HistoryBlocks = orDefault(f.HistoryBlocks, defaultHistoryBlocks)
	f.Percentile = orDefault(f.Percentile, defaultPercentile)
	f.SlowPercentile = orDefault(f.SlowPercentile, min(defaultSlow, f.Percentile))
	f.FastPercentile = orDefault(f.FastPercentile, max(defaultFast, f.Percentile))
	if f.MinTip.IsZero() {
		f.MinTip.SetUint64(defaultMinTip)
	}
	return f
}

func orDefault[T comparable](value, byDefault T) T {
	var zero T
	if value == zero {
		return byDefault
	}
	return value
}

// check rejects unusable options. Its errors omit addresses, which hold API keys.
func (o Options) check() error {
	switch {
	case o.ChainID == 0:
		return errors.New("chain_id is 0; set the chain's EIP-155 chain id")
	case len(o.Endpoints) == 0:
		return errors.New("no RPC endpoint; set at least one http, https, ws or wss address")
	case o.Timeout < 0 || o.MaxInFlight < 0 || o.BatchLimit < 0 || o.LagGrace < 0:
		return errors.New(
			"timeout, in-flight limit, batch limit and lag grace must not be negative")
	case o.GasMargin < 1 || o.GasMargin > maxGasMargin:
		return fmt.Errorf(
			"gas margin %g is out of range: it must be between 1 and %d",
			o.GasMargin, maxGasMargin)
	}
	if err := o.Fees.check(); err != nil {
		return err
	}
	for i, address := range o.Endpoints {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" ||
			u.Scheme != "http" && u.Scheme != "https" && !isWebSocket(u.Scheme) {
			return fmt.Errorf("endpoint %d is not an http, https, ws or wss address with a host",
				i+1)
		}
	}
	return nil
}

func (f FeeOptions) check() error {
	switch {
	case f.HistoryBlocks < 1 || f.HistoryBlocks > maxHistoryBlocks:
		return fmt.Errorf("fee history of %d blocks is out of range: it must be between 1 and %d",
			f.HistoryBlocks,
			maxHistoryBlocks)
	case f.SlowPercentile < 0 || f.FastPercentile > 100:
		return fmt.Errorf("fee percentiles %g, %g and %g: each must be between 0 and 100",
			f.SlowPercentile, f.Percentile, f.FastPercentile)
	case f.SlowPercentile > f.Percentile || f.Percentile > f.FastPercentile:
		return fmt.Errorf("fee percentiles %g, %g and %g: they must not decrease from slow to fast",
			f.SlowPercentile, f.Percentile, f.FastPercentile)
	case f.L1Fee != "" && f.L1Fee != OPStack:
		return fmt.Errorf("source of L1 fees %q is unknown: it must be %q or empty", f.L1Fee,
			OPStack)
	case !f.MaxFee.IsZero() && f.MinTip.Gt(&f.MaxFee):
		return errors.New(
			"the minimum tip is above the maximum fee")
	case !f.MaxFee.IsZero() && f.MinPrice.Gt(&f.MaxFee):
		return errors.New(
			"the minimum price is above the maximum fee")
	}
	return nil
}

func isWebSocket(scheme string) bool { return scheme == "ws" || scheme == "wss" }
