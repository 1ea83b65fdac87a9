package devchain

import (
	"context"
	"log/slog"

	gethlog "github.com/ethereum/go-ethereum/log"
)

// RouteLogs sends the logs of go-ethereum in this process to log; nil discards them. Most of
// go-ethereum shares one logger, so this applies to all chains. Its info level becomes debug.
func RouteLogs(log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// The wrapper hides go-ethereum's own type, which SetDefault would make the default logger of
	// log/slog as well.
	gethlog.SetDefault(struct{ gethlog.Logger }{gethLogger(log)})
}

func gethLogger(log *slog.Logger) gethlog.Logger {
	return gethlog.NewLogger(quieter{log.Handler()})
}

// quieter logs info as debug.
type quieter struct{ slog.Handler }

func level(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}

func (q quieter) Enabled(ctx context.Context, l slog.Level) bool {
	return q.Handler.Enabled(ctx, level(l))
}

func (q quieter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = level(r.Level)
	return q.Handler.Handle(ctx, r)
}

func (q quieter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quieter{q.Handler.WithAttrs(attrs)}
}

func (q quieter) WithGroup(name string) slog.Handler { return quieter{q.Handler.WithGroup(name)} }
