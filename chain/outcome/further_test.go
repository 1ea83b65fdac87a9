package outcome

import (
	"bufio"
	"encoding/json"
	"hash/fnv"
	"os"
	"slices"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// further reads a file of responses with txn classes.
func further(t *testing.T, name string) []sample {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []sample
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var s sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		all = append(all, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// heldOut splits the responses by client, so that no client is on both sides. The rules were
// written with one half in view and first judged by the other.
func heldOut(client string) bool {
	h := fnv.New32a()
	h.Write([]byte(client))
	return h.Sum32()>>8%2 == 1
}

// open are the classes of bytes that may be in a pool, or that the node did not judge.
var open = []txn.Class{
	txn.AlreadyKnown,
	txn.NonceTooLow,
	txn.NonceGap,
	txn.ReplacementUnderpriced,
	txn.Unavailable,
	txn.RateLimited,
	txn.PoolFull,
	txn.Ambiguous,
}

func unsafeClass(want, got txn.Class) bool {
	return slices.Contains(open, want) && slices.Contains(givenUp, got) ||
		want != got && (got == txn.AlreadyKnown || got == txn.Accepted)
}

func TestClassifyFurther(t *testing.T) {
	t.Parallel()
	const wantAccuracy = 0.97
	decidedRule, wrong := map[bool]int{}, map[bool]int{}
	for _, s := range further(t, "further_rpc_errors.jsonl") {
		want, held := txn.Class(s.Class), heldOut(s.Client)
		got, why := Explain(s.response())
		if unsafeClass(want, got) {
			t.Errorf("unsafe: %s of %s is read as %s because %s: %q", want, s.Client, got, why,
				s.Message)
		}
		if s.Ambiguous {
			continue
		}
		decidedRule[held]++
		if got != want {
			wrong[held]++
			t.Logf("held out %v: %s of %s is read as %s because %s: %q", held, want, s.Client, got,
				why, s.Message)
		}
	}
	for _, held := range []bool{false, true} {
		accuracy := 1 - float64(wrong[held])/float64(decidedRule[held])
		t.Logf("held out %v: %d answers, %d wrong, accuracy %.3f",
			held,
			decidedRule[held],
			wrong[held],
			accuracy)
		if accuracy < wantAccuracy {
			t.Errorf("held out %v: accuracy %.3f, want %.2f", held, accuracy, wantAccuracy)
		}
	}
}

// Responses collected after the rules were written. Misread ones led to more general rules.
func TestClassifyLater(t *testing.T) {
	t.Parallel()
	const wantAccuracy = 0.97
	decidedRule, wrong := 0, 0
	for _, s := range further(t, "later_rpc_errors.jsonl") {
		want := txn.Class(s.Class)
		got, why := Explain(s.response())
		if unsafeClass(want, got) {
			t.Errorf("unsafe: %s of %s is read as %s because %s: %q", want, s.Client, got, why,
				s.Message)
		}
		if s.Ambiguous {
			continue
		}
		decidedRule++
		if got != want {
			wrong++
			t.Logf("%s of %s is read as %s because %s: %q", want, s.Client, got, why, s.Message)
		}
	}
	if accuracy := 1 - float64(wrong)/float64(decidedRule); accuracy < wantAccuracy {
		t.Errorf(
			"%d of %d wrong: accuracy %.3f, want %.2f",
			wrong,
			decidedRule,
			accuracy,
			wantAccuracy,
		)
	}
}
