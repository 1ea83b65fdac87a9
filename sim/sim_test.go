package sim

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Main(m)) }

var (
	seedFlag  = flag.Uint64("seed", 0, "run only this seed and print its whole trace")
	dropFlag  = flag.String("drop", "", "numbers of the faults of that seed to leave out")
	seedsFlag = flag.Int("seeds", 40, "number of seeds to run")
	firstFlag = flag.Uint64("first", 1, "first seed")
)

// kinds are the flags of plans that [DrawExternal] and others draw, by their names.
var kinds = map[string]*bool{
	"external": holdsFlag, "policies": policiesFlag, "funds": fundsFlag, "accounts": accountsFlag,
}

// someKind reports whether only plans of one kind are to run.
func someKind() bool {
	for _, kind := range kinds {
		if *kind {
			return true
		}
	}
	return false
}

func verbose() bool { return *seedFlag != 0 }

// TestSeeds runs one simulation per seed.
func TestSeeds(t *testing.T) {
	t.Parallel()
	switch {
	case *huntFlag != 0:
	case someKind(): // see playSeeds
	case *seedFlag != 0:
		r := Play(t, Draw(*seedFlag).Without(dropped(t)...))
		fmt.Fprintf(os.Stderr, "%s%s\n%d steps, at rest after %v, digest %x, faults %v\n", r.Plan,
			r.tail, r.Steps, r.Rest, r.Digest, r.Faults)
		if len(r.Broken) > 0 {
			t.Errorf("seed %d breaks a law:\n  %s", r.Plan.Seed, strings.Join(r.Broken, "\n  "))
		}
	default:
		for i := range *seedsFlag {
			seed := *firstFlag + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := Play(t, Draw(seed))
				t.Logf("seed %d: %d steps, at rest after %.0fs, %v", seed, r.Steps,
					r.Rest.Seconds(), r.Faults)
				if len(r.Broken) > 0 {
					r.report(t)
				}
			})
		}
	}
}

// playSeeds runs one simulation per seed of another kind of plan. With the flag of this kind no
// other one runs.
func playSeeds(t *testing.T, kind string, draw func(seed uint64) Plan) {
	t.Helper()
	only := *kinds[kind]
	first, count := *firstFlag, max(2, *seedsFlag/10)
	switch {
	case *huntFlag != 0, !only && (*seedFlag != 0 || someKind()):
		return
	case *seedFlag != 0:
		first, count = *seedFlag, 1
	case only:
		count = *seedsFlag
	}
	for i := range count {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := Play(t, draw(first+uint64(i)).Without(dropped(t)...))
			t.Logf("seed %d: %d steps, at rest after %.0fs, %v", r.Plan.Seed, r.Steps,
				r.Rest.Seconds(), r.Faults)
			switch {
			case len(r.Broken) > 0:
				t.Errorf("broken: %q\n%s\n%s\nrepeat: %s", r.Broken, r.Plan, r.tail,
					repeat(r.Plan, kind, dropped(t)))
			case verbose():
				t.Logf("%s\n%s", r.Plan, r.tail)
			}
		})
	}
}

func dropped(t *testing.T) (drop []int) {
	t.Helper()
	for _, text := range strings.FieldsFunc(*dropFlag, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-drop: %v", err)
		}
		drop = append(drop, n)
	}
	return drop
}

// report fails the test with the smallest plan that still breaks a law.
func (r Result) report(t *testing.T) {
	t.Helper()
	small, drop := r.shrink(t)
	t.Errorf(
		"seed %d breaks a law:\n  %s\n\n%s\nwith only the necessary faults:\n  %s\n\n%s\n"+
			"last steps:\n%s\nrepeat: %s",
		r.Plan.Seed, strings.Join(r.Broken, "\n  "), r.Plan, strings.Join(small.Broken, "\n  "),
		small.Plan, small.tail, repeat(r.Plan, "", drop))
}

// repeat returns the command that runs a plan again. Without a kind it is one of [Draw].
func repeat(p Plan, kind string, drop []int) string {
	again := fmt.Sprintf("make sim SEED=%d", p.Seed)
	if kind != "" {
		again += " PLAN=" + kind
	}
	if len(drop) > 0 {
		again += " DROP=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(drop), " ", ","), "[]")
	}
	return again
}

// shrinks counts the runs spent on shrinking plans, over all failures.
var shrinks atomic.Int32

const maxShrinks = 60

// shrink removes faults one by one, as long as the same law is broken without them.
func (r Result) shrink(t *testing.T) (smallest Result, drop []int) {
	t.Helper()
	law, _, _ := strings.Cut(r.Broken[0], ":")
	smallest = r
	for _, f := range r.Plan.Faults {
		if shrinks.Add(1) > maxShrinks {
			break
		}
		try := Play(t, r.Plan.Without(append(slices.Clone(drop), f.No)...))
		if len(try.Broken) > 0 && strings.HasPrefix(try.Broken[0], law+":") {
			smallest, drop = try, append(drop, f.No)
		}
	}
	return smallest, drop
}

// TestPlay_SameSeed_SameTrace verifies that a seed determines every step of its run.
func TestPlay_SameSeed_SameTrace(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 || *huntFlag != 0 {
		return
	}
	for i := range max(3, *seedsFlag/20) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := Draw(*firstFlag + uint64(i))
			if i == 0 {
				p = DrawAccounts(*firstFlag)
			}
			a, b := Play(t, p), Play(t, p)
			if a.Digest == b.Digest {
				return
			}
			for i := range min(len(a.trace), len(b.trace)) {
				if a.trace[i] != b.trace[i] {
					t.Fatalf("seed %d: step %d is\n%s\nand\n%s\nafter\n%s", p.Seed, i, a.trace[i],
						b.trace[i], strings.Join(a.trace[max(0, i-10):i], "\n"))
				}
			}
			t.Fatalf("seed %d: one run has %d steps and the other %d", p.Seed, len(a.trace),
				len(b.trace))
		})
	}
}

// TestPlay_CommitRejected_Reported verifies that a run reports a change that a constraint of the
// ledger rejects.
func TestPlay_CommitRejected_Reported(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 || *huntFlag != 0 {
		return
	}
	db := openDatabase(t)
	conn, err := db.connect()
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(db.ctx, "ALTER TABLE managed_tx ADD CHECK (state <> 'ALLOCATED')")
	conn.Close(db.ctx)
	if err != nil {
		t.Fatal(err)
	}
	p := Draw(1)
	p.Faults = nil
	r := playOn(t, p, databases{ledgers: []*database{db}})
	if len(r.Broken) == 0 || len(r.defects) == 0 {
		t.Errorf("broken laws %q, defects %q; want both", r.Broken, r.defects)
	}
}

// TestDatabaseClock_Statement_UsesBubbleTime verifies that every database time comes from the
// bubble's clock: in statements, defaults and functions. A plan may make that clock jump.
func TestDatabaseClock_Statement_UsesBubbleTime(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		if err := db.open(); err != nil {
			t.Fatal(err)
		}
		defer db.close()
		for _, step := range []time.Duration{0, -time.Hour, 2 * time.Minute} {
			time.Sleep(1000 * time.Hour)
			if err := db.jump(step); err != nil {
				t.Fatal(err)
			}
			if err := db.tick(); err != nil {
				t.Fatal(err)
			}
			var read, stamped time.Time
			if err := db.conn.QueryRow(db.ctx, "SELECT clock_timestamp()").Scan(&read); err != nil {
				t.Fatal(err)
			}
			if err := db.conn.QueryRow(db.ctx, `
				INSERT INTO chain (chain_id, genesis_hash)
				VALUES (nextval('command_id'), decode(repeat('00', 32), 'hex'))
				RETURNING created_at`).Scan(&stamped); err != nil {
				t.Fatal(err)
			}
			want := db.base.Add(time.Since(db.began) + db.step)
			if !read.Equal(want) || !stamped.Equal(want) {
				t.Errorf("bubble time %v, clock_timestamp() %v, created_at %v", want, read, stamped)
			}
		}
	})
}
