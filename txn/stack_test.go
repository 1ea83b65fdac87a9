package txn

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

// On each block every owner decides, most of them to rest. Each keeps the stack that this took
// until the garbage collector halves it: 4 kB are enough.
func TestDecide_StackUse(t *testing.T) { // alone: other tests grow stacks too
	const owners = 1000
	most := uint64(4 << 10)
	if raceEnabled {
		most *= 2
	}
	w, _ := sentWorld(t, 1)
	w.view.Policy.ReportConfirmations, w.view.Policy.Bump = true, DefaultBumpPolicy{
		Enabled:     true,
		MinInterval: time.Hour,
		MaxAttempts: 3,
	}
	w.view.Policy.ResubmitMaxAge = time.Hour
	runtime.GC() // frees the stacks of other tests
	before, end := stacks(), make(chan struct{})
	var decided, ended sync.WaitGroup
	for range owners {
		decided.Add(1)
		ended.Go(func() {
			if _, rests := Decide(&w.view).(Rest); !rests {
				t.Error("there is something to do")
			}
			decided.Done()
			<-end
		})
	}
	decided.Wait()
	// the runtime makes a few of its own
	if bytes := (stacks() - before) / owners; bytes > most+most/4 {
		t.Errorf("a stack on which it was decided has %d bytes, not %d", bytes, most)
	}
	close(end)
	ended.Wait()
}

func stacks() uint64 {
	read := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}
