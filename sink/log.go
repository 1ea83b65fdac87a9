package sink

import (
	"context"
	"io"
	"sync"
)

// Log writes each event as one line.
type Log struct {
	encoder Encoder
	mu      sync.Mutex
	out     io.Writer
}

// NewLog returns a sink that writes to out.
func NewLog(out io.Writer, source string) *Log {
	return &Log{encoder: Encoder{Format: Structured, Source: source}, out: out}
}

// Deliver writes all events at once.
func (l *Log) Deliver(_ context.Context, events []*Event) []Result {
	var text []byte
	for _, e := range events {
		m, err := l.encoder.Encode(e)
		if err != nil {
			return []Result{{Verdict: Unavailable, Cause: err.Error()}}
		}
		text = append(append(text, m.Body...), '\n')
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.out.Write(text); err != nil {
		return []Result{{Verdict: Unavailable, Cause: "the log cannot be written"}}
	}
	return []Result{{Verdict: Done}}
}

// Close does nothing.
func (l *Log) Close() {}
