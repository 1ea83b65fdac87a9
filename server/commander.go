package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// commandResult is the owner's result of a command.
type commandResult struct {
	code    string // txn.Applied, or why nothing was done
	message string // of the owner; may be empty
}

func parseResult(result string) commandResult {
	code, message, _ := strings.Cut(result, ": ")
	return commandResult{code, message}
}

// commander records commands for the owners of submitters, and waits for their results.
type commander struct {
	store    Store
	log      *slog.Logger
	clock    clock.Clock
	draining context.Context // ends when the node stops
	wait     time.Duration   // the longest wait for a result
	poll     time.Duration   // how often the result is read
}

// obtain records a command for the owner of a submitter, and returns its result. If the same
// command is pending already, it waits for that one, so a retry after a timeout adds no second
// command.
func (m *commander) obtain(ctx context.Context, submitter txn.SubmitterID,
	ask store.Ask) (commandResult, error) {
	ask.Caller = auth.RightsOf(ctx).Caller()
	command, err := m.pending(ctx, submitter, ask)
	if err != nil {
		return commandResult{}, err
	}
	if command == 0 {
		if command, err = m.store.AddCommand(ctx, submitter, ask); err != nil {
			return commandResult{}, fmt.Errorf("server: record command: %w", err)
		}
	}
	m.logAccepted(ctx, submitter, command, ask)
	result, err := m.awaitCommand(ctx, submitter, command)
	if err != nil {
		return commandResult{}, err
	}
	return parseResult(result), nil
}

// logAccepted logs a command with its caller. A call that joins a pending command is logged with
// that command's id; the ledger has the caller of the first.
func (m *commander) logAccepted(ctx context.Context, submitter txn.SubmitterID, command int64,
	ask store.Ask) {
	attributes := []slog.Attr{
		slog.Int64("submitter_id", int64(submitter)),
		slog.String("kind", string(ask.Kind)),
		slog.String("action", string(ask.Action)),
	}
	if command != 0 {
		attributes = append(attributes, slog.Int64("command_id", command))
	}
	if ask.Tx != nil {
		attributes = append(attributes, slog.String("tx_id", ask.Tx.String()))
	}
	attributes = append(attributes, slog.String("operator", ask.Operator),
		slog.String("caller", ask.Caller))
	m.log.LogAttrs(ctx, slog.LevelInfo, "command accepted", attributes...)
}

// pending returns the id of an equal command without a result; 0 if there is none. Reason and
// operator may differ: the first command's count.
func (m *commander) pending(ctx context.Context, submitter txn.SubmitterID,
	ask store.Ask) (int64, error) {
	commands, err := m.underway(ctx, submitter)
	if err != nil {
		return 0, err
	}
	for _, c := range commands {
		same := c.Kind == ask.Kind && c.Action == ask.Action && c.Expect == ask.Expect
		if same && (ask.Tx == nil || c.Tx == *ask.Tx) {
			return c.ID, nil
		}
	}
	return 0, nil
}

// underway returns the commands without a result, in order of application.
func (m *commander) underway(ctx context.Context,
	submitter txn.SubmitterID) ([]txn.Command, error) {
	inboxes, err := m.store.Inboxes(ctx, []txn.SubmitterID{submitter}, 1)
	if err != nil {
		return nil, fmt.Errorf("server: read pending commands: %w", err)
	}
	return inboxes[submitter].Commands, nil
}

// Bounds of the search for an applied command.
const (
	pastPages    = 10
	pastPageSize = 1000
)

// lastCommand returns the newest matching command; nil if none is within the bounds.
func (m *commander) lastCommand(ctx context.Context, submitter txn.SubmitterID,
	is func(store.CommandInfo) bool) (*store.CommandInfo, error) {
	before := int64(0)
	for range pastPages {
		commands, err := m.store.Commands(ctx, submitter, before, pastPageSize)
		if err != nil {
			return nil, fmt.Errorf("server: read past commands: %w", err)
		}
		for _, c := range commands {
			if is(c) {
				return &c, nil
			}
		}
		if len(commands) < pastPageSize {
			return nil, nil
		}
		before = commands[len(commands)-1].ID
	}
	return nil, nil
}

// declined returns DECISION_REFUSED with the owner's message.
func declined(v commandResult) error {
	message := v.message
	switch {
	case v.code == txn.ResultUnknownCommand:
		message = "unknown to the node that owns it; update that node, then retry"
	case message == "":
		message = "rejected by its owner: " + v.code
	}
	return status.DecisionRefused("%s", message)
}

// awaitCommand returns the result of a command. It polls: the owner may be on another node.
func (m *commander) awaitCommand(ctx context.Context, submitter txn.SubmitterID,
	command int64) (result string, err error) {
	ctx, cancel := m.commandContext(ctx)
	defer cancel()
	for {
		result, done, err := m.store.CommandResult(ctx, submitter, command)
		if done {
			return result, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil {
			return "", fmt.Errorf("server: read result of command %d: %w", command, err)
		}
		if err := clock.Sleep(ctx, m.clock, m.poll); err != nil {
			return "", err
		}
	}
}

// answerMargin is the part of a client's deadline reserved for the response. At the deadline
// itself, the client library would replace the response by an error without a reason.
const answerMargin = 10 // one part in ten

func (m *commander) commandContext(parent context.Context) (context.Context, context.CancelFunc) {
	wait := m.wait
	if deadline, ok := parent.Deadline(); ok {
		left := deadline.Sub(m.clock.Now())
		wait = min(wait, left-left/answerMargin)
	}
	ctx, cancel := context.WithCancelCause(parent)
	stopTimer := m.after(max(wait, 0), func() { cancel(status.ErrNotApplied) })
	stopDraining := context.AfterFunc(m.draining, func() { cancel(status.ErrDraining) })
	return ctx, func() {
		stopDraining()
		stopTimer()
		cancel(nil)
	}
}

// after calls f once, unless it is stopped first.
func (m *commander) after(d time.Duration, f func()) (stop func()) {
	stopped := make(chan struct{})
	timer := m.clock.NewTimer(d)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C:
			f()
		case <-stopped:
		}
	}()
	return func() { close(stopped) }
}
