package engine

import (
	"context"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/fencepost/fencepost/internal/clock"
)

// sampler bounds the log lines at level info about steps that thousands of submitters take. Lines
// above the rate are at level debug, and the next one at info has their number.
type sampler struct {
	clock   clock.Clock
	limiter *rate.Limiter
	skipped atomic.Int64
}

// Lines per second at level info, and as many as may come at once.
const (
	sampleRate  = 10
	sampleBurst = 100
)

func newSampler(c clock.Clock) *sampler {
	return &sampler{clock: c, limiter: rate.NewLimiter(sampleRate, sampleBurst)}
}

// log writes a line at level info or debug; attributes is called only if the line is written.
func (s *sampler) log(log *slog.Logger, message string, attributes func() []any) {
	ctx := context.Background()
	if !log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	if s.limiter.AllowN(s.clock.Now(), 1) {
		all := attributes()
		if n := s.skipped.Swap(0); n > 0 {
			all = append(all, "skipped", n)
		}
		log.Info(message, all...)
		return
	}
	s.skipped.Add(1)
	if log.Enabled(ctx, slog.LevelDebug) {
		log.Debug(message, attributes()...)
	}
}
