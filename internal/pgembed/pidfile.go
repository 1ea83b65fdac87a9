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

// pidFile is the content of postmaster.pid: the pid in the first line, the status in the eighth.
type pidFile struct {
	data   string
	pid    int
	status string
}

func readPIDFile(data string) pidFile {
	text, _ := os.ReadFile(filepath.Join(data, "postmaster.pid")) // no file, no server
	lines := strings.Split(string(text), "\n")
	p := pidFile{data: data}
	p.pid, _ = strconv.Atoi(lines[0]) // a partial file counts as none
	if len(lines) > 7 {
		p.status = strings.TrimSpace(lines[7])
	}
	return p
}

// server returns the pid of the live server that the file names, else 0.
func (p pidFile) server() int {
	if p.pid <= 0 || errors.Is(syscall.Kill(p.pid, 0), syscall.ESRCH) || !runsIn(p.pid, p.data) {
		return 0
	}
	return p.pid
}

// awaitPredecessor waits until no server uses the data, and returns the pid that the last one left
// in its file. A server whose parent just died is still shutting down; one that shows no sign of
// that is another program's.
func awaitPredecessor(ctx context.Context, data string) (stale int, err error) {
	limit := foreignLimit
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

// poll calls done until it returns true, ctx ends or the limit is reached.
func poll(ctx context.Context, limit time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	for !done() {
		if err := clock.Sleep(ctx, clock.Real{}, pollEvery); err != nil {
			return err
		}
	}
	return nil
}
