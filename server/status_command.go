package server

import (
	"context"

	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// demand is what pause and resume have in common: a status that the owner of a submitter shall
// bring about.
type demand struct {
	submitter string
	kind      txn.CommandKind
	status    txn.SubmitterStatus
	reason    string
	operator  string
}

// demand records the command unless it is needless or recorded already, waits until an owner has
// applied it, and tells how the submitter stands then. A caller who repeats the call waits for the
// same command.
func (s *submitterService) demand(ctx context.Context,
	d demand) (info store.SubmitterInfo, err error) {
	id, err := s.resolver.lookup(ctx, "submitter", d.submitter)
	if err != nil {
		return info, err
	}
	info, err = s.store.Submitter(ctx, id)
	if err != nil {
		return info, status.AboutSubmitter(d.submitter, err)
	}
	last, err := s.commands.lastStatusCommand(ctx, id)
	if err != nil {
		return info, status.AboutSubmitter(d.submitter, err)
	}
	if last == nil && info.Status == d.status {
		return info, nil
	}
	command := int64(0)
	ask := store.Ask{
		Kind:     d.kind,
		Reason:   d.reason,
		Operator: d.operator,
		Caller:   auth.RightsOf(ctx).Caller(),
	}
	if last != nil && last.Kind == d.kind {
		command = last.ID
	} else if command, err = s.store.AddCommand(ctx, id, ask); err != nil {
		return info, status.AboutSubmitter(d.submitter, err)
	}
	s.commands.tellAccepted(ctx, id, command, ask)
	if _, err := s.commands.awaitCommand(ctx, id, command); err != nil {
		return info, status.AboutSubmitter(d.submitter, err)
	}
	info, err = s.store.Submitter(ctx, id)
	return info, status.AboutSubmitter(d.submitter, err)
}

// lastStatusCommand is the newest pause or resume that no owner has applied yet: when all are
// applied it decides.
func (m *commander) lastStatusCommand(ctx context.Context,
	id txn.SubmitterID) (last *txn.Command, err error) {
	commands, err := m.underway(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, c := range commands {
		if c.Kind == txn.CommandPause || c.Kind == txn.CommandResume {
			last = &c
		}
	}
	return last, nil
}
