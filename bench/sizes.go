package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/txn"
)

const (
	benchChain  = txn.ChainID(31337)
	transferGas = 21_000
	gwei        = 1_000_000_000
)

func hashOf(raw []byte) txn.Hash { return crypto.Keccak256Hash(raw) }

// scenario measures one thing.
type scenario struct {
	name string
	run  func(context.Context, *bench) error
}

// size is the amount and the duration of the measurements.
type size struct {
	rounds    int
	spell     time.Duration // of one measurement of a rate
	steady    time.Duration // of one measurement end to end, after it has warmed up
	lives     int           // of each submitter, in lockstep
	ends      []endToEnd
	watches   []watch
	lease     time.Duration // in the take-over
	countOnly bool          // nothing but counts is measured: no limits of the machine
	growth    *growth       // the ledgers that are compared
	archived  int           // transactions that an archive moves under load
	ledgers   time.Duration // of one measurement with several ledgers; 0: none
	check     bool          // counts that are over their budgets fail the run
}

var sizes = map[string]size{
	// counts are taken in a short run, in CI too.
	"counts": {
		rounds:    1,
		spell:     time.Second,
		steady:    8 * time.Second,
		lives:     10,
		countOnly: true,
		check:     true,
		ends: []endToEnd{
			{
				submitters: 500,
				period:     250 * time.Millisecond,
				lockstep:   true,
			}, {submitters: 500, period: 250 * time.Millisecond, lockstep: true, byHash: true},
			{submitters: 500, period: 250 * time.Millisecond, lockstep: true, simulated: true},
			{
				submitters: 50, inFlight: 16, period: 250 * time.Millisecond, lockstep: true,
				simulated: true,
			},
		},
	},
	"small": {rounds: 1, spell: time.Second, steady: 6 * time.Second, lives: 10, ends: []endToEnd{
		{
			submitters: 1,
			period:     250 * time.Millisecond,
		}, {submitters: 500, period: 250 * time.Millisecond},
		{submitters: 500, period: 250 * time.Millisecond, lockstep: true},
	}, watches: []watch{{1, usualEvents}, {1000, usualEvents}}, lease: 3 * time.Second,
		ledgers: 3 * time.Second},
	// ledgers compares one ledger with several.
	"ledgers": {rounds: 3, countOnly: true, ledgers: 10 * time.Second},
	// watchers are the most that one node is made for, at twice the usual pace, and one alone for
	// comparison.
	"watchers": {
		rounds:    1,
		steady:    20 * time.Second,
		countOnly: true,
		check:     true,
		watches:   []watch{{1, 1000}, {10_000, 1000}},
	},
	// signers compares a remote signer, which takes 150 ms, with keys in the node.
	// Rounds, because the ratio of two loads depends on the load of the machine between them.
	"signers": {rounds: 3, steady: 8 * time.Second, countOnly: true, check: true, ends: []endToEnd{
		{submitters: 50, period: 250 * time.Millisecond},
		{submitters: 50, period: 250 * time.Millisecond, signDelay: 150 * time.Millisecond},
		{submitters: 50, inFlight: 32, period: 250 * time.Millisecond},
		{
			submitters: 50, inFlight: 32, period: 250 * time.Millisecond,
			signDelay: 150 * time.Millisecond,
		},
	}},
	// archive moves a million transactions to files, beside callers and owners.
	"archive": {
		rounds: 1, steady: 20 * time.Second, countOnly: true, check: true, archived: 1_000_000,
	},
	// growth compares ledgers that hold little with ledgers that hold much.
	"growth": {rounds: 1, lives: 10, countOnly: true, growth: &allGrowth},
	"full": {
		rounds: 3,
		spell:  3 * time.Second,
		steady: 20 * time.Second,
		lives:  20,
		ends: []endToEnd{
			{
				submitters: 1,
				period:     250 * time.Millisecond,
			}, {submitters: 50, period: 250 * time.Millisecond},
			{
				submitters: 500,
				period:     250 * time.Millisecond,
			}, {submitters: 500, period: 250 * time.Millisecond, lockstep: true},
			{submitters: 500, period: 250 * time.Millisecond, lockstep: true, byHash: true},
			{submitters: 500, period: 250 * time.Millisecond, lockstep: true, simulated: true},
			{submitters: 50, inFlight: 16, period: 250 * time.Millisecond},
			{
				submitters: 50, inFlight: 16, period: 250 * time.Millisecond, lockstep: true,
				simulated: true,
			},
			{submitters: 1, inFlight: 64, period: time.Second},
			{
				submitters: 500,
				period:     time.Second,
			}, {submitters: 5000, period: time.Second},
			{submitters: 50, period: 250 * time.Millisecond, embedded: true},
		},
		watches: []watch{
			{1, usualEvents},
			{1000, usualEvents},
			{10_000, usualEvents},
			{1, 1000},
			{10_000, 1000},
		},
		lease:   10 * time.Second,
		ledgers: 10 * time.Second,
	},
}

func sizeNames() []string { return slices.Sorted(maps.Keys(sizes)) }

// scenarios are the scenarios of a size, the limits first.
func (s size) scenarios() (all []scenario) {
	if !s.countOnly {
		all = []scenario{
			{
				"limit-fsync",
				fsyncs,
			}, {"limit-sign", signings}, {"limit-grpc", bareGRPC}, {"limit-insert", rawInserts},
			{"limit-batch", rawBatches}, {"limit-lifecycle", rawLifecycle},
			{"limit-kafka", bareKafka},
			{"accept", accept}, {"accept-batch", acceptBatches},
		}
	}
	if s.spell > 0 {
		all = append(all, scenario{"policy", policyCost}, scenario{"sink-kafka", deliverToKafka})
	}
	for _, e := range s.ends {
		all = append(all, scenario{"end-" + e.name(), e.run})
	}
	for _, w := range s.watches {
		all = append(all, scenario{w.name(), w.run})
	}
	if n := s.archived; n > 0 {
		all = append(all, scenario{fmt.Sprintf("archive-%d", n),
			func(ctx context.Context, b *bench) error { return archiving(ctx, b, n) }})
	}
	if s.growth != nil {
		all = append(all, s.growth.scenarios()...)
	}
	if s.lease > 0 {
		all = append(all, scenario{"takeover", takeover}, scenario{"modes", modes},
			scenario{"nonces", nonces})
	}
	if s.ledgers > 0 {
		all = append(all, scenario{"ledgers-count", ledgersByCount},
			scenario{"ledgers-chaos", ledgersChaos})
	}
	return all
}

// matching are the scenarios that are asked for.
func (s size) matching(only *regexp.Regexp) []scenario {
	return slices.DeleteFunc(s.scenarios(),
		func(one scenario) bool { return !only.MatchString(one.name) })
}

func (s size) names() (all []string) {
	for _, one := range s.scenarios() {
		all = append(all, one.name)
	}
	return all
}

// printScenarios prints the sizes and scenarios.
func printScenarios(w io.Writer) {
	for _, name := range sizeNames() {
		fmt.Fprintf(w, "%s: %s\n", name, strings.Join(sizes[name].names(), " "))
	}
}

// against is the limit that a number is compared with.
func against() map[string]string {
	pairs := map[string]string{
		"limit.insert.batched":        "limit.insert.best",
		"limit.insert.batched.notify": "limit.insert.batched",
		"accept.batch.rate":           "limit.insert.batched",
		"sink.kafka.rate":             "limit.kafka",
		"policy.limited.time":         "policy.free.time",
		"nonces.allocate.rate":        "nonces.create.rate",
	}
	for _, callers := range acceptCallers {
		pairs[fmt.Sprintf("accept.%d.rate", callers)] = "limit.insert.best"
	}
	for _, number := range []string{"p50", "p99", "failed"} {
		pairs["modes.worker-queue."+number] = "modes.basic." + number
	}
	for _, number := range []string{"rate", "p99"} {
		for count := 2; count <= mostLedgers; count++ {
			pairs[fmt.Sprintf("ledgers.%d.%s", count, number)] = "ledgers.1." + number
		}
		pairs["ledgers.frozen."+number] = "ledgers.calm." + number
		pairs["ledgers.killed."+number] = "ledgers.calm." + number
	}
	for _, s := range sizes {
		maps.Copy(pairs, s.growth.against())
		for _, e := range s.ends {
			pairs["end."+e.name()+".rate"] = "limit.lifecycle"
			if e.signDelay > 0 {
				local := e
				local.signDelay = 0
				for _, number := range []string{".rate", ".interval"} {
					pairs["end."+e.name()+number] = "end." + local.name() + number
				}
			}
		}
		for _, w := range s.watches {
			if w.watchers > 1 {
				alone := watch{1, w.events}
				pairs[w.name()+".queries"], pairs[w.name()+".queries.feed"] = alone.name()+
					".queries", alone.name()+".queries.feed"
			}
		}
	}
	return pairs
}
