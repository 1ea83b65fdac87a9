package server

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// statusCommand is a command to pause or resume a submitter.
type statusCommand struct {
	submitter string
	kind      txn.CommandKind
	status    txn.SubmitterStatus
	reason    string
	operator  string
	expect    int64 // of a resume: the pause that it may end; 0: any
}

// setStatus records the command, unless the submitter has the status or the command is recorded
// already, waits until the owner has applied it, and returns the submitter. A repeated call waits
// for the same command.
func (s *submitterService) setStatus(ctx context.Context,
	c statusCommand) (info store.SubmitterInfo, err error) {
	id, err := s.resolver.lookup(ctx, "submitter", c.submitter)
	if err != nil {
		return info, err
	}
	info, err = s.store.Submitter(ctx, id)
	if err != nil {
		return info, status.AboutSubmitter(c.submitter, err)
	}
	last, err := s.commands.lastStatusCommand(ctx, id)
	if err != nil {
		return info, status.AboutSubmitter(c.submitter, err)
	}
	if last == nil && info.Status == c.status {
		return info, nil
	}
	if now := info.Pause; c.expect != 0 && info.Status == txn.Paused &&
		(now == nil || now.ID != c.expect) {
		return info, pauseChanged(info, c)
	}
	command := int64(0)
	ask := store.Ask{
		Kind:     c.kind,
		Reason:   c.reason,
		Operator: c.operator,
		Expect:   c.expect,
		Caller:   auth.RightsOf(ctx).Caller(),
	}
	if last != nil && last.Kind == c.kind && last.Expect == c.expect {
		command = last.ID
	} else if command, err = s.store.AddCommand(ctx, id, ask); err != nil {
		return info, status.AboutSubmitter(c.submitter, err)
	}
	s.commands.logAccepted(ctx, id, command, ask)
	result, err := s.commands.awaitCommand(ctx, id, command)
	if err != nil {
		return info, status.AboutSubmitter(c.submitter, err)
	}
	info, err = s.store.Submitter(ctx, id)
	if err == nil && parseResult(result).code == txn.ResultPauseChanged {
		return info, pauseChanged(info, c)
	}
	return info, status.AboutSubmitter(c.submitter, err)
}

// pauseChanged rejects a resume that names another pause than the one in force.
func pauseChanged(info store.SubmitterInfo, c statusCommand) error {
	now := "read the submitter again"
	if info.Pause != nil {
		now = fmt.Sprintf("review pause %d, which is in force, and decide again", info.Pause.ID)
	}
	return status.PauseChanged("submitter %q: pause %d is not in force; %s", c.submitter,
		c.expect, now)
}

// lastStatusCommand returns the newest pending pause or resume, which decides once all are applied;
// nil if there is none.
func (m *commander) lastStatusCommand(ctx context.Context,
	id txn.SubmitterID) (last *txn.Command, err error) {
	commands, err := m.underway(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, command := range commands {
		if command.Kind == txn.CommandPause || command.Kind == txn.CommandResume {
			last = &command
		}
	}
	return last, nil
}
