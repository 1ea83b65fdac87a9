package sim

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Main(m)) }

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed alone, and tell all of its trace")
	dropFlag  = flag.String("drop", "", "faults of that seed to leave out, by number")
	seedsFlag = flag.Int("seeds", 40, "how many seeds to run")
	firstFlag = flag.Uint64("first", 1, "the first of them")
)

func verbose() bool { return *seedFlag != 0 }

// TestSeeds runs seed after seed.
func TestSeeds(t *testing.T) {
	t.Parallel()
	if *huntFlag != 0 {
		return
	}
	if *seedFlag != 0 {
		var drop []int
		for _, text := range strings.FieldsFunc(*dropFlag, func(r rune) bool { return r == ',' }) {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("-drop: %v", err)
			}
			drop = append(drop, n)
		}
		p := Draw(*seedFlag).Without(drop...)
		r := Play(t, p)
		fmt.Fprintf(os.Stderr, "%s%s\n%d steps, %v, digest %x, faults %v\n", p, r.tail, r.Steps, r.Rest, r.Digest, r.Faults)
		r.report(t)
		return
	}
	for i := range *seedsFlag {
		seed := *firstFlag + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := Play(t, Draw(seed))
			t.Logf("seed %d: %d steps, at rest after %.0fs, %v", seed, r.Steps, r.Rest.Seconds(), r.Faults)
			r.report(t)
		})
	}
}

func (r Result) report(t *testing.T) {
	if len(r.Broken) == 0 {
		return
	}
	t.Errorf("seed %d breaks the law:\n  %s\n\n%s\nthe last steps:\n%s\nagain: make sim SEED=%d", r.Plan.Seed, strings.Join(r.Broken, "\n  "), r.Plan, r.tail, r.Plan.Seed)
}

// TestASeedIsARun: the same seed is the same run, step by step.
func TestASeedIsARun(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 || *huntFlag != 0 {
		return
	}
	for i := range max(3, *seedsFlag/20) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := Draw(*firstFlag + uint64(i))
			a, b := Play(t, p), Play(t, p)
			if a.Digest == b.Digest {
				return
			}
			for i := range min(len(a.trace), len(b.trace)) {
				if a.trace[i] != b.trace[i] {
					t.Fatalf("seed %d: step %d is\n%s\nand\n%s\nafter\n%s", p.Seed, i, a.trace[i], b.trace[i], strings.Join(a.trace[max(0, i-10):i], "\n"))
				}
			}
			t.Fatalf("seed %d: one run has %d steps and the other %d", p.Seed, len(a.trace), len(b.trace))
		})
	}
}
