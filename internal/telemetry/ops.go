package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	probeTimeout = 2 * time.Second // per check; platform probes time out a little later
	opsTimeout   = 10 * time.Second
	opsGrace     = 2 * time.Second // for running requests when the listener stops
)

// Check is one condition for accepting clients.
type Check struct {
	Name string
	// OneOf names a group of checks of which one must pass; empty: this one must.
	OneOf string
	Probe func(context.Context) error // nil: healthy. The error is logged, not returned to clients
}

// Handler serves the endpoints for operators and platforms.
func Handler(metrics http.Handler, log *slog.Logger, checks ...Check) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz",
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", &readiness{log: log, checks: checks, failing: map[string]bool{}})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(
			w,
			fmt.Sprintf(
				"nothing at %s %s; use GET /metrics, /healthz, /readyz or /chains, or the API at "+
					"grpc.listen",
				r.Method, r.URL.Path),
			http.StatusNotFound,
		)
	})
	return mux
}

// readiness serves /readyz. It logs when a check starts to fail and when it recovers, not on each
// request.
type readiness struct {
	log    *slog.Logger
	checks []Check

	mu      sync.Mutex
	failing map[string]bool
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	errs := r.probe(request.Context())
	if request.Context().Err() != nil {
		return // the client has gone and cancelled the probes: their results mean nothing
	}
	status, lines := http.StatusOK, make([]string, len(errs))
	passed := map[string]bool{} // by group
	for i, err := range errs {
		r.note(r.checks[i], err)
		lines[i] = r.checks[i].Name + " ok"
		if err != nil {
			lines[i] = r.checks[i].Name + " failing"
		}
		group := r.checks[i].OneOf
		if group == "" {
			group = fmt.Sprint(i)
		}
		passed[group] = passed[group] || err == nil
	}
	for _, ok := range passed {
		if !ok {
			status = http.StatusServiceUnavailable
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(
		w,
		strings.Join(
			append(lines,
				map[bool]string{true: "ready", false: "not ready"}[status == http.StatusOK]),
			"\n",
		),
	)
}

// probe runs all checks concurrently.
func (r *readiness) probe(ctx context.Context) []error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout,
		fmt.Errorf("no result within %s", probeTimeout))
	defer cancel()
	errs := make([]error, len(r.checks))
	var all sync.WaitGroup
	for i, c := range r.checks {
		all.Go(func() { errs[i] = c.Probe(ctx) })
	}
	all.Wait()
	return errs
}

func (r *readiness) note(c Check, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed, passed := "not ready", "ready again"
	if c.OneOf != "" { // another one may pass
		failed, passed = "readiness check failed", "readiness check passed again"
	}
	switch was := r.failing[c.Name]; {
	case err != nil && !was:
		r.log.Warn(failed, "check", c.Name, "err", err)
	case err == nil && was:
		r.log.Info(passed, "check", c.Name)
	}
	r.failing[c.Name] = err != nil
}

// Serve serves on a listener until ctx ends, and closes it.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: opsTimeout, ReadTimeout: opsTimeout,
		WriteTimeout: opsTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("telemetry: serve ops on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), opsGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		server.Close() // cut off unfinished requests
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("telemetry: serve ops on %s: %w", listener.Addr(), err)
	}
	return nil
}
