package server

import (
	"context"

	"github.com/fencepost/fencepost/txn"
)

// lookup finds the submitter that a field names, by its name or its account id.
func (s *Server) lookup(ctx context.Context, field, text string) (txn.SubmitterID, error) {
	key := text
	chain, address, isAccount, err := txn.ParseAccountID(text)
	if err != nil {
		return 0, invalidField(field, "%v", err)
	}
	if isAccount {
		key = txn.AccountID(chain, address) // one spelling of an account
	}
	id, err := s.store.Lookup(ctx, key)
	return id, onSubmitter(text, err)
}
