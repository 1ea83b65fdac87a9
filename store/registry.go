package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/store/internal/db"
	"github.com/fencepost/fencepost/txn"
)

// RegisterChain remembers the genesis block of a chain, or compares it with the one that is
// remembered: two chains behind one chain id are found out.
func (s *Store) RegisterChain(ctx context.Context, chain txn.ChainID, genesis txn.Hash) error {
	verb := fmt.Sprintf("register chain %d", chain)
	if chain == 0 || !storable(uint64(chain)) {
		return fmt.Errorf("store: %s: a chain id is 1 to 2^63-1", verb)
	}
	known, err := s.own().RegisterChain(ctx,
		db.RegisterChainParams{ChainID: int64(chain), GenesisHash: genesis[:]})
	if errors.Is(err,
		// another node registered it at this moment, too late for the statement to see
		pgx.ErrNoRows) {
		known, err = s.own().RegisterChain(ctx,
			db.RegisterChainParams{ChainID: int64(chain), GenesisHash: genesis[:]})
	}
	if err != nil {
		return s.failed(ctx, verb, err)
	}
	if toHash(known) != genesis {
		return fmt.Errorf(
			"store: %s: the ledger has genesis block %s, this endpoint %s: another chain; correct "+
				"the chain's rpc, or use a new ledger for a chain that was reset",
			verb,
			txn.Hash(toHash(known)),
			genesis,
		)
	}
	return nil
}

// Register adds a submitter, with its lease row. A repeated call returns the existing one;
// start_from may be corrected while no nonce cursor exists. It returns ErrSubmitterExists when the
// name or the account is registered with other settings.
func (s *Store) Register(ctx context.Context,
	r Registration) (info SubmitterInfo, created bool, err error) {
	verb := fmt.Sprintf("register submitter %q", r.Name)
	if !storable(uint64(r.Chain)) {
		return SubmitterInfo{}, false, fmt.Errorf("store: %s: its chain id is beyond 2^63-1", verb)
	}
	var no *int32 // of this ledger in the directory
	if s.cfg.Directory != nil {
		// A submitter that exists does not need the directory.
		if info, err = s.registered(ctx, r); errors.Is(err, ErrSubmitterNotFound) {
			no, err = s.claim(ctx, r)
		}
		if err != nil {
			return SubmitterInfo{}, false, fmt.Errorf("store: %s: %w", verb, err)
		}
		if no == nil {
			return info, false, nil
		}
	}
	id, err := s.read().RegisterSubmitter(ctx, db.RegisterSubmitterParams{
		DirectoryNo: no,
		Name:        r.Name, ChainID: int64(r.Chain), Address: r.Address[:], Signer: r.Signer,
		Mode: string(r.Mode), MaxInFlight: r.limit(), StartFrom: r.StartFrom,
		OnFailure: string(onFailure(r.OnFailure)), MaxFee: r.MaxFee.Dec(),
	})
	switch {
	case err == nil:
		info, err = s.Submitter(ctx, txn.SubmitterID(id))
		return info, true, err
	case isUnclaimed(err):
		return SubmitterInfo{}, false, fmt.Errorf("store: %s: %w: the ledger has one; set "+
			"directory.url on every node", verb, ErrDirectory)
	case !errors.Is(err, pgx.ErrNoRows):
		return SubmitterInfo{}, false, s.failed(ctx, verb, err)
	}
	info, err = s.registered(ctx, r)
	if err != nil {
		return SubmitterInfo{}, false, fmt.Errorf("store: %s: %w", verb, err)
	}
	return info, false, nil
}

// limit is the number of nonces in flight that a registration asks for.
func (r Registration) limit() int32 {
	switch {
	case r.Mode == txn.Strict:
		return 1
	case r.MaxInFlight == 0 && r.Mode == txn.External:
		return txn.DefaultReservations
	case r.MaxInFlight == 0:
		return txn.DefaultInFlight
	}
	return int32(r.MaxInFlight)
}

// sameMode reports whether a submitter has the mode and the limit that a registration asks for.
func (r Registration) sameMode(is txn.Submitter) bool {
	return r.AnyMode || r.Mode == is.Mode && (r.MaxInFlight == 0 || int(r.limit()) == is.Limit)
}

// Registered returns the registered submitters among these names, by name: one query for a node
// that starts with thousands of them.
func (s *Store) Registered(ctx context.Context, names []string) (map[string]txn.Submitter, error) {
	rows, err := s.read().SubmittersOf(ctx, names)
	if err != nil {
		return nil, s.failed(ctx, "look for submitters that are registered", err)
	}
	all := make(map[string]txn.Submitter, len(rows))
	for _, r := range rows {
		if all[r.Name], err = toSubmitter(db.OwnedSubmitterRow(r)); err != nil {
			return nil, s.failed(ctx, "look for submitters that are registered", err)
		}
	}
	return all, nil
}

// As reports whether a submitter was registered with these settings, its policies aside.
func (r Registration) As(is txn.Submitter) bool {
	return r.Chain == is.Chain && r.Address == is.Address && r.Signer == is.Signer &&
		r.sameMode(is) && r.StartFrom == is.StartFrom
}

// registered compares a registration with the submitter that stands in its way.
func (s *Store) registered(ctx context.Context, r Registration) (SubmitterInfo, error) {
	account := txn.AccountID(r.Chain, r.Address)
	id, err := s.Lookup(ctx, r.Name)
	if errors.Is(err, ErrSubmitterNotFound) {
		id, err = s.Lookup(ctx, account)
	}
	if err != nil {
		return SubmitterInfo{}, err
	}
	info, err := s.Submitter(ctx, id)
	switch {
	case err != nil:
		return SubmitterInfo{}, err
	case info.Chain != r.Chain || info.Address != r.Address:
		return SubmitterInfo{}, fmt.Errorf("%w: the name belongs to %s; choose another",
			ErrSubmitterExists, txn.AccountID(info.Chain, info.Address))
	case info.Name != r.Name:
		return SubmitterInfo{}, fmt.Errorf("%w: the account is registered as %q",
			ErrSubmitterExists, info.Name)
	case info.Signer != r.Signer || !r.sameMode(info.Submitter):
		return SubmitterInfo{}, fmt.Errorf("%w: signer %q, mode %s and max_in_flight %d",
			ErrSubmitterExists, info.Signer, info.Mode, info.Limit)
	case info.StartFrom == r.StartFrom:
		return info, nil
	}
	changed, err := s.read().SetStartFrom(ctx,
		db.SetStartFromParams{SubmitterID: int32(id), StartFrom: r.StartFrom})
	if err != nil {
		return SubmitterInfo{}, describeError(err)
	}
	if changed == 0 {
		return SubmitterInfo{}, fmt.Errorf(
			"%w: it started from %q, which cannot be changed any more", ErrSubmitterExists,
			info.StartFrom)
	}
	return s.Submitter(ctx, id)
}

// CountedQueue is the largest queue depth that the status of a submitter counts: enough to
// distinguish few from many, at the same cost for a queue of any length.
const CountedQueue = 1000

// Submitter reads one submitter with its owner, cursor and queue.
func (s *Store) Submitter(ctx context.Context, id txn.SubmitterID) (SubmitterInfo, error) {
	verb := fmt.Sprintf("read submitter %d", id)
	if id < 1 {
		return SubmitterInfo{}, fmt.Errorf("store: %s: %w", verb, ErrSubmitterNotFound)
	}
	rows, err := s.read().Submitters(
		ctx,
		db.SubmittersParams{
			AnyName:     true,
			SubmitterID: int32(id),
			MaxRows:     1,
			MostQueued:  CountedQueue + 1,
		},
	)
	if err != nil {
		return SubmitterInfo{}, s.failed(ctx, verb, err)
	}
	if len(rows) == 0 {
		return SubmitterInfo{}, fmt.Errorf("store: %s: %w", verb, ErrSubmitterNotFound)
	}
	if ledger := rows[0].MovedTo; ledger != "" {
		return SubmitterInfo{}, fmt.Errorf("store: %s: %w", verb, &MovedError{rows[0].Name, ledger})
	}
	info, err := toSubmitterInfo(rows[0])
	return info, s.failed(ctx, verb, err)
}

// Submitters lists submitters by name, those after afterName; of these names alone, unless they are
// nil.
func (s *Store) Submitters(ctx context.Context, names []string, afterName string,
	limit int) ([]SubmitterInfo, error) {
	rows, err := s.read().Submitters(
		ctx,
		db.SubmittersParams{
			AnyName:    names == nil,
			Names:      names,
			AfterName:  afterName,
			MaxRows:    rowLimit(limit),
			MostQueued: CountedQueue + 1,
		},
	)
	if err != nil {
		return nil, s.failed(ctx, "list submitters", err)
	}
	infos := make([]SubmitterInfo, len(rows))
	for i, r := range rows {
		if infos[i], err = toSubmitterInfo(r); err != nil {
			return nil, s.failed(ctx, "list submitters", err)
		}
	}
	return infos, nil
}

func toSubmitterInfo(r db.SubmittersRow) (SubmitterInfo, error) {
	submitter, err := toSubmitter(db.OwnedSubmitterRow{
		SubmitterID: r.SubmitterID, Name: r.Name, ChainID: r.ChainID, Address: r.Address,
		Signer: r.Signer, Mode: r.Mode, MaxInFlight: r.MaxInFlight,
		Status: r.Status, StartFrom: r.StartFrom, CreatedAt: r.CreatedAt, OnFailure: r.OnFailure,
		MaxFee: r.MaxFee,
	})
	cursor := toCursor(r.NextNonce, r.InitNonce, r.Protections, r.ProtectReason,
		r.ProtectEvidence, r.ProtectAt)
	if cursor != nil && cursor.Protected != nil && r.ChainNonce != nil {
		cursor.Protected.ChainNonce = new(txn.Nonce(*r.ChainNonce))
	}
	if r.Queued == 0 {
		r.QueueHeadAt = time.Time{}
	}
	return SubmitterInfo{
		Submitter: submitter,
		Lease: LeaseInfo{
			OwnerNode:  r.OwnerNode,
			Token:      txn.Token(r.FencingToken),
			AcquiredAt: r.AcquiredAt,
			ExpiresAt:  r.ExpiresAt,
			Live:       r.Live,
		},
		Cursor:   cursor,
		Pause:    toPause(r),
		Queued:   min(r.Queued, CountedQueue),
		More:     r.Queued > CountedQueue,
		InFlight: r.InFlight,
		Unfunded: r.Unfunded, QueueHeadAt: r.QueueHeadAt,
	}, err
}

func toPause(r db.SubmittersRow) *Pause {
	if !r.PauseKnown {
		return nil
	}
	return &Pause{
		ID:        r.PauseID,
		OnFailure: r.PauseAction == string(txn.ActionOnFailure),
		Reason:    r.PauseReason,
		Operator:  r.PauseOperator,
		At:        r.PausedAt,
	}
}

// maxLookups bounds each cache.
const maxLookups = 1 << 16

// lookups cache the ids of names and accounts, and the names and chains of ids. Ids, names and
// chains are never reused, except after a restore: see forget. An account may move to another
// ledger; other statements notice that too.
type lookups struct {
	mu       sync.Mutex
	since    time.Time // of ids
	ids      map[string]txn.SubmitterID
	accounts map[txn.SubmitterID]account
}

// account is the part of a submitter that never changes in one ledger.
type account struct {
	name  string
	chain txn.ChainID
}

// lookupsLast is how long an account that has moved may be looked up as if it had not.
const lookupsLast = 5 * time.Second

// expire forgets the ids once they are old.
func (l *lookups) expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) > lookupsLast {
		l.ids, l.since = nil, now
	}
}

func (l *lookups) get(key string) (txn.SubmitterID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, ok := l.ids[key]
	return id, ok
}

func (l *lookups) put(key string, id txn.SubmitterID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil || len(l.ids) >= maxLookups {
		l.ids = map[string]txn.SubmitterID{}
	}
	l.ids[key] = id
}

// fill sets the cached accounts of these ids, and returns the others.
func (l *lookups) fill(accounts map[txn.SubmitterID]account) (unknown []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range accounts {
		known, ok := l.accounts[id]
		if accounts[id] = known; !ok {
			unknown = append(unknown, int32(id))
		}
	}
	return unknown
}

func (l *lookups) putAccount(id txn.SubmitterID, is account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accounts == nil || len(l.accounts) >= maxLookups {
		l.accounts = map[txn.SubmitterID]account{}
	}
	l.accounts[id] = is
}

func (l *lookups) forget(id txn.SubmitterID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.accounts, id)
}

// accounts fills in the names and chains of these submitters, and reads the ones that are not
// cached. A missing submitter has none.
func (s *Store) accounts(ctx context.Context, q *db.Queries,
	of map[txn.SubmitterID]account) error {
	unknown := s.lookups.fill(of)
	if len(unknown) == 0 {
		return nil
	}
	rows, err := q.AccountsOf(ctx, unknown)
	for _, r := range rows {
		id, is := txn.SubmitterID(r.SubmitterID), account{r.Name, txn.ChainID(r.ChainID)}
		of[id] = is
		s.lookups.putAccount(id, is)
	}
	return err
}

// Lookup finds a submitter by its name or by its CAIP-10 account id.
func (s *Store) Lookup(ctx context.Context, nameOrAccountID string) (txn.SubmitterID, error) {
	verb := func() string { return fmt.Sprintf("look up submitter %q", nameOrAccountID) }
	chain, address, isAccount, err := txn.ParseAccountID(nameOrAccountID)
	if err != nil {
		return 0, fmt.Errorf("store: %s: %w: %w", verb(), ErrSubmitterNotFound, err)
	}
	key := nameOrAccountID
	if isAccount {
		key = txn.AccountID(chain, address)
	}
	s.lookups.expire(s.clock.Now())
	if id, ok := s.lookups.get(key); ok {
		return id, nil
	}
	var row db.SubmitterByNameRow
	if isAccount {
		var r db.SubmitterByAccountRow
		r, err = s.read().SubmitterByAccount(ctx,
			db.SubmitterByAccountParams{ChainID: int64(chain), Address: address[:]})
		row = db.SubmitterByNameRow(r)
	} else {
		row, err = s.read().SubmitterByName(ctx, nameOrAccountID)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("store: %s: %w", verb(), ErrSubmitterNotFound)
	}
	if err != nil {
		return 0, s.failed(ctx, verb(), err)
	}
	if row.MovedTo != "" {
		return 0, fmt.Errorf("store: %s: %w", verb(), &MovedError{row.Name, row.MovedTo})
	}
	s.lookups.put(key, txn.SubmitterID(row.SubmitterID))
	return txn.SubmitterID(row.SubmitterID), nil
}

// SetPolicies changes policies of a submitter, and those that are not named stay as they are. Its
// owner goes by them once it has obeyed an UPDATE command.
func (s *Store) SetPolicies(ctx context.Context, id txn.SubmitterID, change PolicyChange) error {
	verb := fmt.Sprintf("change the policies of submitter %d", id)
	p := db.SetPoliciesParams{
		SubmitterID: int32(id), DefaultInFlight: txn.DefaultInFlight,
		Reason: change.Asked.Reason, Operator: change.Asked.Operator, Caller: change.Asked.Caller,
	}
	p.DefaultReservations = txn.DefaultReservations
	if change.OnFailure != nil {
		p.OnFailure = new(string(onFailure(*change.OnFailure)))
	}
	if change.MaxFee != nil {
		p.MaxFee = new(change.MaxFee.Dec())
	}
	if change.Mode != nil {
		p.Mode = new(string(*change.Mode))
	}
	if change.MaxInFlight != nil {
		p.MaxInFlight = new(int32(*change.MaxInFlight))
	}
	n, err := s.read().SetPolicies(ctx, p)
	switch {
	case err != nil:
		return s.failed(ctx, verb, err)
	case n > 0:
		return nil
	}
	info, err := s.Submitter(ctx, id)
	if err != nil {
		return err
	}
	if m := change.Mode; m != nil && (*m == txn.External) != (info.Mode == txn.External) &&
		(*m != txn.Strict || change.MaxInFlight == nil || *change.MaxInFlight == 1) {
		return fmt.Errorf("store: %s: %w", verb, ErrModeBusy)
	}
	return fmt.Errorf("store: %s: %w", verb, ErrModeLimit)
}

func onFailure(f txn.OnFailure) txn.OnFailure {
	if f == "" {
		return txn.Continue
	}
	return f
}
