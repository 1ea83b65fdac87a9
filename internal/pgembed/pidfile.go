package pgembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

// pidFile is what a server writes into its data: its pid on the first line, and
// how far it has come on the eighth.
type pidFile struct {
	data   string
	pid    int
	status string
}

func readPIDFile(data string) pidFile {
	text, _ := os.ReadFile(filepath.Join(data, "postmaster.pid")) // no file, no server
	lines := strings.Split(string(text), "\n")
	p := pidFile{data: data}
	p.pid, _ = strconv.Atoi(lines[0]) // half-written is as good as none
	if len(lines) > 7 {
		p.status = strings.TrimSpace(lines[7])
	}
	return p
}

// server is the pid of the live server that the file tells of, else 0.
func (p pidFile) server() int {
	if p.pid <= 0 || errors.Is(syscall.Kill(p.pid, 0), syscall.ESRCH) || !runsIn(p.pid, p.data) {
		return 0
	}
	return p.pid
}

// awaitPredecessor waits until no server uses the data, and returns the pid that
// the last one left in its file. One whose parent died a moment ago is still
// shutting down; one that shows no sign of it is somebody else's.
func awaitPredecessor(ctx context.Context, data string) (stale int, err error) {
	limit := handoverLimit
	if readPIDFile(data).status == "stopping" {
		limit = stoppingLimit
	}
	err = poll(ctx, limit, func() bool { return readPIDFile(data).server() == 0 })
	last := readPIDFile(data)
	if err == nil || ctx.Err() != nil {
		return last.pid, err
	}
	return 0, fmt.Errorf(
		"a PostgreSQL with pid %d already runs on %s: stop it, or choose another folder", last.pid,
		data)
}

var errLimit = errors.New("limit reached")

// poll asks until the answer is yes, ctx ends or the limit is reached.
func poll(ctx context.Context, limit time.Duration, ask func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	for !ask() {
		if err := clock.Sleep(ctx, clock.Real{}, pollEvery); err != nil {
			return err
		}
	}
	return nil
}
