package engine

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	for name, stalled := range map[string]struct{ expire, renew, want bool }{
		"both loops run": {false, false, false},
		"deadlines hang": {true, false, true},
		"renewals hang":  {false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := clock.NewFake(time.Now())
			e := &Engine{Options: Options{Clock: fake, LeaseDuration: lease}}
			e.keeper = newKeeper(e)
			if err := e.Progress(); err != nil {
				t.Errorf("before the start: %v", err)
			}
			e.keeper.mark(&e.keeper.expired)
			e.keeper.mark(&e.keeper.cycled)
			for range 3 {
				fake.Advance(lease)
				if !stalled.expire {
					e.keeper.mark(&e.keeper.expired)
				}
				if !stalled.renew {
					e.keeper.mark(&e.keeper.cycled)
				}
			}
			if err := e.Progress(); (err != nil) != stalled.want {
				t.Errorf("got %v, want an error: %v", err, stalled.want)
			}
		})
	}
}
