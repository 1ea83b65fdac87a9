package server

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// demand is what pause and resume have in common: a status that the owner of a submitter shall bring about.
type demand struct {
	submitter string
	kind      txn.CommandKind
	status    txn.SubmitterStatus
	reason    string
}

// demand records the command unless it is needless or recorded already, waits until an owner has applied it, and tells how the submitter stands then. A
// caller who repeats the call waits for the same command.
func (s *Server) demand(ctx context.Context, d demand) (info store.SubmitterInfo, err error) {
	id, err := s.lookup(ctx, "submitter", d.submitter)
	if err != nil {
		return info, err
	}
	info, err = s.store.Submitter(ctx, id)
	if err != nil {
		return info, onSubmitter(d.submitter, err)
	}
	last, err := s.lastStatusCommand(ctx, id)
	if err != nil {
		return info, onSubmitter(d.submitter, err)
	}
	if last == nil && info.Status == d.status {
		return info, nil
	}
	command := int64(0)
	if last != nil && last.Kind == d.kind {
		command = last.ID
	} else if command, err = s.store.AddCommand(ctx, id, d.kind, nil, d.reason); err != nil {
		return info, onSubmitter(d.submitter, err)
	}
	if err := s.awaitCommand(ctx, id, command); err != nil {
		return info, onSubmitter(d.submitter, err)
	}
	info, err = s.store.Submitter(ctx, id)
	return info, onSubmitter(d.submitter, err)
}

// lastStatusCommand is the newest pause or resume that no owner has applied yet: when all are applied it decides.
func (s *Server) lastStatusCommand(ctx context.Context, id txn.SubmitterID) (last *txn.Command, err error) {
	inboxes, err := s.store.Inboxes(ctx, []txn.SubmitterID{id}, 1)
	if err != nil {
		return nil, fmt.Errorf("server: read the commands under way: %w", err)
	}
	for _, c := range inboxes[id].Commands {
		if c.Kind == txn.CommandPause || c.Kind == txn.CommandResume {
			last = &c
		}
	}
	return last, nil
}

// awaitCommand polls: an owner on another node has no way to tell this one.
func (s *Server) awaitCommand(ctx context.Context, submitter txn.SubmitterID, command int64) error {
	ctx, cancel := s.commandContext(ctx)
	defer cancel()
	for {
		_, done, err := s.store.CommandResult(ctx, submitter, command)
		if done {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("server: look for the result of command %d: %w", command, err)
		}
		if err := clock.Sleep(ctx, s.clock, s.limits.CommandPoll); err != nil {
			return err
		}
	}
}

// answerMargin is what is kept of a caller's deadline to answer in: an answer at the deadline is an answer that the caller's own library has replaced by one
// without a reason.
const answerMargin = 10 // one part in ten

func (s *Server) commandContext(parent context.Context) (context.Context, context.CancelFunc) {
	wait := s.limits.CommandWait
	if deadline, ok := parent.Deadline(); ok {
		left := deadline.Sub(s.clock.Now())
		wait = min(wait, left-left/answerMargin)
	}
	ctx, cancel := context.WithCancelCause(parent)
	expired := s.after(max(wait, 0), func() { cancel(errNotApplied) })
	undrained := context.AfterFunc(s.draining, func() { cancel(errDraining) })
	return ctx, func() {
		undrained()
		expired()
		cancel(nil)
	}
}

// after calls f once, unless it is called off before.
func (s *Server) after(d time.Duration, f func()) (callOff func()) {
	off := make(chan struct{})
	timer := s.clock.NewTimer(d)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C:
			f()
		case <-off:
		}
	}()
	return func() { close(off) }
}
