// Command bench measures Fencepost against the limits of its machine, in one run: the limits of
// PostgreSQL, gRPC, disk and processor, and the share that remains with all guarantees kept. Ratios
// are comparable between machines, rates are not.
//
// Three processes share the machine, as on a small one: a PostgreSQL whose commits wait for the
// disk; the node, which is a separate program (bench/node); and this program, which provides the
// clients, the watchers and the chain. The chain is chaintest's, behind JSON-RPC over HTTP.
//
// The statements, commits, bytes of WAL, calls and requests per transaction are counted at the
// server and at the chain. They hardly depend on the machine, and bench -check compares them with
// their budgets (budgets.yaml).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

func main() {
	debug.SetGCPercent(
		// the callers and the chain are small, and would collect all the time on the processors
		// that they share with the node
		400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// flags are the command line.
type flags struct {
	size     string
	only     string
	rounds   int
	list     bool
	json     bool
	check    bool
	budgets  string
	node     string
	data     string
	profiles string
}

func parse(args []string, errs io.Writer) (f flags, err error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(errs)
	set.StringVar(&f.size, "size", "small", "how much: "+strings.Join(sizeNames(), ", "))
	set.StringVar(&f.only, "only", "",
		"run the scenarios whose names match this expression (-list shows them); a ratio needs "+
			"the scenarios of both sides, as in 'limit|accept'")
	set.BoolVar(&f.list, "list", false,
		"print the sizes and the names of their scenarios, and run none")
	set.IntVar(&f.rounds, "rounds", 0,
		"how often each scenario runs; the median counts (default: by size)")
	set.BoolVar(&f.json, "json", false, "print JSON")
	set.BoolVar(&f.check, "check", false, "fail when a count is over its budget, or was not taken")
	set.StringVar(&f.budgets, "budgets", "bench/budgets.yaml", "the file with the budgets")
	set.StringVar(&f.node, "node", "",
		"the program of the node, from go build ./bench/node (default: bench-node beside this "+
			"program)")
	set.StringVar(&f.data, "data", "",
		"put PostgreSQL's data into fencepost-bench in this folder, for the next run too "+
			"(default: in the user's cache)")
	set.StringVar(&f.profiles, "profiles", "",
		"a folder for profiles of the node, and of this program as \"load\", taken end to end")
	return f, set.Parse(args)
}

// bench is one run.
type bench struct {
	size    size
	db      *database
	node    string // its program
	results *results
	errs    io.Writer
	flags   flags
}

func (b *bench) add(name, unit string, value float64) { b.results.add(name, unit, value) }

// progress prints a line with the time.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(b.errs, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

func measure(ctx context.Context, args []string, out, errs io.Writer) error {
	f, err := parse(args, errs)
	if err != nil {
		return err
	}
	if f.list {
		printScenarios(out)
		return nil
	}
	size, known := sizes[f.size]
	if !known {
		return fmt.Errorf("size %q is none of %s", f.size, strings.Join(sizeNames(), ", "))
	}
	only, err := regexp.Compile(f.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if len(size.matching(only)) == 0 {
		return fmt.Errorf("-only %q is none of the scenarios of size %s, which are %s", f.only,
			f.size, strings.Join(size.names(), ", "))
	}
	budgets, err := readBudgets(f.budgets)
	if err != nil {
		return err
	}
	program, err := nodeProgram(f.node)
	if err != nil {
		return err
	}
	b := &bench{size: size, node: program, results: newResults(), errs: errs, flags: f}
	if self, err := os.Executable(); err == nil && older(program, self) {
		b.progress(
			"the node, %s, is older than this program and may be of other code: \"make bench\" "+
				"builds both",
			program)
	}
	b.progress("starting PostgreSQL")
	if b.db, err = startDatabase(ctx, f.data); err != nil {
		return err
	}
	err = b.runAll(ctx, only)
	err = errors.Join(err, b.db.stop(context.WithoutCancel(ctx)))
	b.results.compare(against())
	if missing := b.results.missing(against()); f.only != "" && len(missing) > 0 {
		b.progress("no ratios, because these were not measured: %s", strings.Join(missing, ", "))
	}
	broken := budgets.judge(b.results, f.check || size.check)
	if f.json {
		err = errors.Join(err, b.results.printJSON(out))
	} else {
		b.results.print(out)
		b.progress(
			"docs/performance.md describes each row. On a machine with other load, rates and " +
				"times mean little; counts do not depend on the machine",
		)
	}
	return errors.Join(err, broken)
}

// runAll runs every scenario in each round, so that temporary load on the machine affects limits
// and Fencepost equally.
func (b *bench) runAll(ctx context.Context, only *regexp.Regexp) error {
	rounds := b.size.rounds
	if b.flags.rounds > 0 {
		rounds = b.flags.rounds
	}
	for round := range rounds {
		for _, s := range b.size.matching(only) {
			b.progress("round %d of %d: %s", round+1, rounds, s.name)
			if err := s.run(ctx, b); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}
