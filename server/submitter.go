package server

import (
	"context"

	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/txn"
)

// lookup finds the submitter that a field names, by its name or its account id, if the caller has a right to it.
func (s *Server) lookup(ctx context.Context, field, text string) (txn.SubmitterID, error) {
	if _, _, _, err := txn.ParseAccountID(text); err != nil {
		return 0, status.InvalidField(field, "%v", err)
	}
	if err := s.authz.MayUse(ctx, text); err != nil {
		return 0, err
	}
	id, err := s.store.Lookup(ctx, text)
	return id, status.AboutSubmitter(text, err)
}
