package accesslog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fencepost/fencepost/internal/clock"
)

// A client that is rejected again and again must not fill the log. Of the lines of one kind, at
// info or warn, only the first within SampleInterval is written. The others are counted, and their
// number follows in one line. At debug, all lines are written.
const (
	// SampleInterval is the time for which lines of one kind are counted.
	SampleInterval = 10 * time.Second
	maxKinds       = 200 // counted separately; clients choose some parts of a kind
)

// kind identifies lines that are counted together.
type kind struct {
	message, method, caller, reason string
	code                            codes.Code
}

// sampler counts the lines that were not written.
type sampler struct {
	mu    sync.Mutex
	since time.Time
	more  map[kind]*sample
}

type sample struct {
	level slog.Level
	more  int // lines that were not written
}

// sample writes a line, or counts it.
func (l *Log) sample(ctx context.Context, level slog.Level, k kind, attributes []slog.Attr) {
	if level >= slog.LevelInfo && level < slog.LevelError && !l.first(level, k) {
		level = slog.LevelDebug
	}
	l.logger.LogAttrs(ctx, level, k.message, attributes...)
}

// first reports whether a line is the first of its kind, and counts it if not.
func (l *Log) first(level slog.Level, k kind) bool {
	switch k.code {
	case codes.Unauthenticated, codes.Unimplemented: // the method is any text
		k.method = ""
	}
	if l.clock.Now().Sub(l.sampled()) >= SampleInterval {
		l.flush()
	}
	l.sampler.mu.Lock()
	defer l.sampler.mu.Unlock()
	if l.sampler.more == nil {
		l.sampler.more = map[kind]*sample{}
	}
	if l.sampler.more[k] == nil && len(l.sampler.more) >= maxKinds {
		k = kind{message: k.message}
	}
	if s := l.sampler.more[k]; s != nil {
		s.more++
		return false
	}
	l.sampler.more[k] = &sample{level: level}
	return true
}

func (l *Log) sampled() time.Time {
	l.sampler.mu.Lock()
	defer l.sampler.mu.Unlock()
	return l.sampler.since
}

// flush writes the numbers of the lines that were not written, and starts to count again.
func (l *Log) flush() {
	l.sampler.mu.Lock()
	all := l.sampler.more
	l.sampler.more, l.sampler.since = nil, l.clock.Now()
	l.sampler.mu.Unlock()
	for k, s := range all {
		if s.more == 0 {
			continue
		}
		attributes := []slog.Attr{slog.Int("more", s.more)}
		for _, one := range [][2]string{{"method", k.method}, {"caller", k.caller},
			{"reason", k.reason}} {
			if one[1] != "" {
				attributes = append(attributes, slog.String(one[0], one[1]))
			}
		}
		l.logger.LogAttrs(context.Background(), s.level, k.message, attributes...)
	}
}

// Run writes the numbers of lines that were not written, until ctx ends.
func (l *Log) Run(ctx context.Context) {
	defer l.flush()
	for clock.Sleep(ctx, l.clock, SampleInterval) == nil {
		l.flush()
	}
}

// ConnectionRefused logs a connection that was closed for lack of room.
func (l *Log) ConnectionRefused(reason string) {
	l.sample(context.Background(), slog.LevelWarn,
		kind{message: "connection refused", reason: reason},
		[]slog.Attr{slog.String("reason", reason)})
}
