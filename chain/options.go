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

// Options say which chain a client speaks to and how. Zero values take the default named beside them.
type Options struct {
	Name        string        // the chain's name in the configuration: what errors and logs call it
	ChainID     txn.ChainID   // EIP-155 chain id that every endpoint must answer
	Genesis     txn.Hash      // hash of block 0 that every endpoint must answer; zero takes the first endpoint's and holds the others to it
	Endpoints   []string      // http, https, ws or wss addresses in order of preference
	Timeout     time.Duration // for one call to one endpoint; 10 s
	MaxInFlight int           // calls under way per endpoint; 100
	BatchLimit  int           // calls in one JSON-RPC batch; 100
	GasMargin   float64       // an estimate is multiplied by it; 1.2
	// TrustGasLimits leaves the simulation of drafts out that bring their gas limit: that they revert, or take more, is found out on the chain.
	TrustGasLimits bool
	// LagGrace is how long a view that lies behind the highest head seen is kept out when no endpoint has a newer one. After it the chain is taken to have
	// gone back. 30 s.
	LagGrace time.Duration
	Fees     FeeOptions
	Errors   *outcome.Errors // custom errors of contracts that the reasons of reverts are told by; nil: none
	Clock    clock.Clock     // the machine's
	Logger   *slog.Logger    // none

	maxAnswer int64 // bytes of one answer; tests lower it
}

// FeeOptions say what a quote offers. Amounts are wei for each unit of gas.
type FeeOptions struct {
	HistoryBlocks  int      // newest blocks that eth_feeHistory looks at; 10
	Percentile     float64  // of the tips paid in them; 50
	SlowPercentile float64  // the same for the speed SLOW; 25, or Percentile if that is lower
	FastPercentile float64  // the same for the speed FAST; 75, or Percentile if that is higher
	MinTip         txn.Wei  // floor of the tip; 1,000,000, which is what miners of go-ethereum ask by default
	MinPrice       txn.Wei  // floor of the fee cap and of a gas price; zero is none
	MaxFee         txn.Wei  // cap of the fee cap and of a gas price; zero is no cap
	FixedPrice     *txn.Wei // legacy transactions at this price, whatever the chain says; nil is off
	MaxGas         uint64   // most gas of one transaction that the chain's pools take; 0 is no limit. 16,777,216 since EIP-7825
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

	maxHistoryBlocks = 1024 // what go-ethereum answers at most
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

// check finds what no client can work with. Addresses stay out of the texts: they hold API keys.
func (o Options) check() error {
	switch {
	case o.ChainID == 0:
		return errors.New("chain_id is 0: set the chain's EIP-155 chain id")
	case len(o.Endpoints) == 0:
		return errors.New("no RPC endpoint: give at least one http, https, ws or wss address")
	case o.Timeout < 0 || o.MaxInFlight < 0 || o.BatchLimit < 0 || o.LagGrace < 0:
		return errors.New(
			"timeout, in-flight limit, batch limit and lag grace must not be negative")
	case o.GasMargin < 1 || o.GasMargin > maxGasMargin:
		return fmt.Errorf(
			"the gas margin is %g: it multiplies an estimate and must lie between 1 and %d",
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
		return fmt.Errorf("fee history of %d blocks: must lie between 1 and %d", f.HistoryBlocks,
			maxHistoryBlocks)
	case f.SlowPercentile < 0 || f.FastPercentile > 100:
		return fmt.Errorf("fee percentiles %g, %g and %g: each must lie between 0 and 100",
			f.SlowPercentile, f.Percentile, f.FastPercentile)
	case f.SlowPercentile > f.Percentile || f.Percentile > f.FastPercentile:
		return fmt.Errorf("fee percentiles %g, %g and %g: they must rise from slow to fast",
			f.SlowPercentile, f.Percentile, f.FastPercentile)
	case !f.MaxFee.IsZero() && f.MinTip.Gt(&f.MaxFee):
		return errors.New(
			"the minimum tip is above the maximum fee: no transaction could keep both")
	case !f.MaxFee.IsZero() && f.MinPrice.Gt(&f.MaxFee):
		return errors.New(
			"the minimum price is above the maximum fee: no transaction could keep both")
	}
	return nil
}

func isWebSocket(scheme string) bool { return scheme == "ws" || scheme == "wss" }
