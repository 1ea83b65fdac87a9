package accesslog

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/status"
)

func TestLog_ManyRefusals_Sampled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		level    slog.Level
		min, max int // lines
	}{
		"info":  {slog.LevelInfo, 4, 4},
		"debug": {slog.LevelDebug, 2000, 2004},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text bytes.Buffer
			c := clock.NewFake(time.Unix(1_700_000_000, 0))
			l := New(slog.New(slog.NewTextHandler(&text,
				&slog.HandlerOptions{Level: test.level})), c)
			for i := range 1000 {
				call := l.Begin(fmt.Sprint("/any/", i))
				_ = call.End(t.Context(), nil, status.ErrUnauthenticated)
				l.ConnectionRefused("node_full")
			}
			c.Advance(SampleInterval)
			l.flush()
			lines := strings.Count(text.String(), "\n")
			if lines < test.min || lines > test.max ||
				strings.Count(text.String(), "more=999") != 2 {
				t.Errorf("%d lines, want %d to %d, two with the number of the others:\n%.2000s",
					lines, test.min, test.max, &text)
			}
		})
	}
}

func TestLog_ManyKinds_Bounded(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&text, nil)), clock.NewFake(time.Unix(1, 0)))
	for i := range 10 * maxKinds {
		call := l.Begin(fmt.Sprint("/any/", i))
		_ = call.End(t.Context(), nil, status.PermissionDenied("no"))
	}
	if lines := strings.Count(text.String(), "\n"); lines > maxKinds+1 {
		t.Errorf("%d lines", lines)
	}
}
