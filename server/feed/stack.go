package feed

import (
	"fmt"
	"runtime/debug"
)

// OnFreshStack runs step on a new goroutine, waits for it and returns its error. A panic of step
// continues in the caller.
//
// Most of the cost of a WatchTx stream is the stack of the goroutine that waits for events. The
// runtime halves a stack only when less than a quarter of it is in use, so one deep call keeps it
// large for the life of the stream. gRPC alone needs 1.4 KB. With all other work done here, a
// 4 KB stack is enough.
func OnFreshStack(step func() error) (err error) {
	var panicked any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		err = step()
	}()
	<-done
	if panicked != nil {
		panic(panicked) // the caller's interceptor recovers and logs it
	}
	return err
}
