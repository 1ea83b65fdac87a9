package server

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// NonceOptions configure NonceService.
type NonceOptions struct {
	Enabled            bool
	DefaultTTL, MaxTTL time.Duration // of reservations; 0: 2 min, and 1 h
}

func (o NonceOptions) complete() NonceOptions {
	if o.DefaultTTL <= 0 {
		o.DefaultTTL = 2 * time.Minute
	}
	if o.MaxTTL <= 0 {
		o.MaxTTL = time.Hour
	}
	return o
}

// nonceService implements NonceService. Like all others it decides nothing: the owner of the
// submitter does.
type nonceService struct {
	pb.UnimplementedNonceServiceServer

	store    Store
	resolver *resolver
	commands *commander
	options  NonceOptions
	log      *slog.Logger
}

// AllocateNonce reserves a nonce. A repeated call returns the same reservation.
func (s *nonceService) AllocateNonce(ctx context.Context,
	r *pb.AllocateNonceRequest) (*pb.AllocateNonceResponse, error) {
	id, err := s.submitter(ctx, r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	ttl, err := s.ttl(r.GetTtl())
	if err != nil {
		return nil, err
	}
	asked, _, err := s.ask(ctx, store.NonceAsk{
		Submitter: id, Kind: txn.RequestAllocate, RequestID: r.GetRequestId(),
		Holder: r.GetHolder(), TTL: ttl,
	})
	if err != nil {
		return nil, status.AboutSubmitter(r.GetSubmitter(), err)
	}
	info, held, err := s.store.NonceOf(ctx, asked.Reservation)
	if err != nil {
		return nil, status.AboutRequest(r.GetSubmitter(), r.GetRequestId(), err)
	}
	// two processes with one reservation would both sign for its nonce
	other := info.State == txn.NonceReserved && info.Holder != "" && r.GetHolder() != "" &&
		info.Holder != r.GetHolder()
	if other || info.Caller != auth.RightsOf(ctx).Caller() {
		return nil, status.AboutRequest(r.GetSubmitter(), r.GetRequestId(), store.ErrKeyReused)
	}
	// a released nonce is the next one's who asks
	if !held || info.State == txn.NonceRecyclable {
		return nil, status.AboutRequest(r.GetSubmitter(), r.GetRequestId(), status.NonceState(
			"its reservation %s has ended; use a new request_id", asked.Reservation))
	}
	return &pb.AllocateNonceResponse{Nonce: wireNonce(info), Created: asked.Created}, nil
}

// RecordNonceHash records that a transaction was signed.
func (s *nonceService) RecordNonceHash(ctx context.Context,
	r *pb.RecordNonceHashRequest) (*pb.RecordNonceHashResponse, error) {
	nonce, err := s.change(ctx, r.GetReservationId(), store.NonceAsk{
		Kind: txn.RequestRecordHash, Hash: common.HexToHash(r.GetTxHash()),
	})
	return &pb.RecordNonceHashResponse{Nonce: nonce}, err
}

// ReleaseNonce gives a nonce back.
func (s *nonceService) ReleaseNonce(ctx context.Context,
	r *pb.ReleaseNonceRequest) (*pb.ReleaseNonceResponse, error) {
	nonce, err := s.change(ctx, r.GetReservationId(),
		store.NonceAsk{Kind: txn.RequestRelease, Reason: r.GetReason()})
	return &pb.ReleaseNonceResponse{Nonce: nonce}, err
}

// QuarantineNonce ends a reservation whose nonce may have been used.
func (s *nonceService) QuarantineNonce(ctx context.Context,
	r *pb.QuarantineNonceRequest) (*pb.QuarantineNonceResponse, error) {
	nonce, err := s.change(ctx, r.GetReservationId(),
		store.NonceAsk{Kind: txn.RequestQuarantine, Reason: r.GetReason()})
	return &pb.QuarantineNonceResponse{Nonce: nonce}, err
}

// ExtendReservation lets a reservation last longer.
func (s *nonceService) ExtendReservation(ctx context.Context,
	r *pb.ExtendReservationRequest) (*pb.ExtendReservationResponse, error) {
	ttl, err := s.ttl(r.GetTtl())
	if err != nil {
		return nil, err
	}
	nonce, err := s.change(ctx, r.GetReservationId(),
		store.NonceAsk{Kind: txn.RequestExtend, TTL: ttl})
	return &pb.ExtendReservationResponse{Nonce: nonce}, err
}

// GetNonce returns one nonce.
func (s *nonceService) GetNonce(ctx context.Context,
	r *pb.GetNonceRequest) (*pb.GetNonceResponse, error) {
	if r.GetReservationId() != "" {
		_, info, _, err := s.reservation(ctx, r.GetReservationId())
		if err != nil {
			return nil, err
		}
		return &pb.GetNonceResponse{Nonce: wireNonce(info)}, nil
	}
	id, err := s.submitter(ctx, r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	info, err := s.store.Nonce(ctx, id, txn.Nonce(r.GetNonce()))
	if err != nil {
		return nil, status.AboutNonce(r.GetSubmitter(), r.GetNonce(), err)
	}
	return &pb.GetNonceResponse{Nonce: wireNonce(info)}, nil
}

// ListNonces pages through the nonces of a submitter, highest first.
func (s *nonceService) ListNonces(ctx context.Context,
	r *pb.ListNoncesRequest) (*pb.ListNoncesResponse, error) {
	id, err := s.submitter(ctx, r.GetSubmitter())
	if err != nil {
		return nil, err
	}
	digest := filterDigest(&pb.ListNoncesRequest{Submitter: r.GetSubmitter(),
		States: r.GetStates(), NeedsOperator: r.GetNeedsOperator()})
	last, err := parsePageToken(r.GetPageToken(), digest)
	if err != nil {
		return nil, err
	}
	size := pageSize(r.GetPageSize())
	// One more row shows whether there is another page.
	f := store.NonceFilter{Submitter: id, NeedsOperator: r.GetNeedsOperator(), Limit: size + 1}
	for _, state := range r.GetStates() {
		f.States = append(f.States, txn.NonceState(state.String()[len("NONCE_STATE_"):]))
	}
	if last != nil {
		if len(last) != 8 {
			return nil, errPageToken()
		}
		f.Below = new(txn.Nonce(binary.BigEndian.Uint64(last)))
	}
	infos, err := s.store.ListNonces(ctx, f)
	if err != nil {
		return nil, status.AboutSubmitter(r.GetSubmitter(), err)
	}
	response := &pb.ListNoncesResponse{}
	if len(infos) > size {
		infos = infos[:size]
		response.NextPageToken = pageToken(digest,
			binary.BigEndian.AppendUint64(nil, uint64(infos[size-1].Nonce)))
	}
	for _, info := range infos {
		response.Nonces = append(response.Nonces, wireNonce(info))
	}
	return response, nil
}

// submitter finds a submitter by name or account id.
func (s *nonceService) submitter(ctx context.Context, name string) (txn.SubmitterID, error) {
	if !s.options.Enabled {
		return 0, status.NonceAPIDisabled()
	}
	return s.resolver.lookup(ctx, "submitter", name)
}

// reservation finds a reservation, and the nonce that it holds or held last. held is false if
// another reservation holds that nonce by now; the nonce is then as this one left it.
func (s *nonceService) reservation(ctx context.Context,
	text string) (id txn.ReservationID, info store.NonceInfo, held bool, err error) {
	if !s.options.Enabled {
		return id, info, false, status.NonceAPIDisabled()
	}
	about := func(err error) error { return status.About("reservation "+text, err) }
	if id, err = txn.ParseTxID(text); err != nil {
		return id, info, false, about(status.ReservationNotFound())
	}
	if err = s.resolver.authz.MaySee(ctx, id); err != nil {
		return id, info, false, err
	}
	info, held, err = s.store.NonceOf(ctx, id)
	if errors.Is(err, store.ErrNonceNotFound) {
		err = status.ReservationNotFound()
	}
	return id, info, held, about(err)
}

// change asks the owner for a change under a reservation. Only the caller that holds it may ask.
func (s *nonceService) change(ctx context.Context, text string,
	ask store.NonceAsk) (*pb.Nonce, error) {
	id, info, _, err := s.reservation(ctx, text)
	if err != nil {
		return nil, err
	}
	if caller := auth.RightsOf(ctx).Caller(); caller != info.Caller {
		return nil, status.About("reservation "+text, status.PermissionDenied(
			"belongs to caller %q; use that caller, or ResolveNonce as an operator", info.Caller))
	}
	ask.Submitter, ask.Reservation = id.Submitter(), id
	if _, _, err = s.ask(ctx, ask); err != nil {
		return nil, status.About("reservation "+text, err)
	}
	if info, _, err = s.store.NonceOf(ctx, id); err != nil {
		return nil, status.About("reservation "+text, err)
	}
	return wireNonce(info), nil
}

// ask records a request and waits until the owner has applied it.
func (s *nonceService) ask(ctx context.Context, ask store.NonceAsk) (asked store.NonceAsked,
	outcome store.NonceOutcome, err error) {
	ask.Caller = auth.RightsOf(ctx).Caller()
	waiting, cancel := s.commands.commandContext(ctx)
	defer cancel()
	if asked, err = s.store.AskNonce(waiting, ask); err != nil {
		if errors.Is(err, store.ErrMode) {
			return asked, outcome, status.SubmitterMode(
				"not in mode EXTERNAL; use CreateTx, or change the mode")
		}
		return asked, outcome, err
	}
	if outcome, err = s.store.AwaitNonce(waiting, asked); err != nil {
		return asked, outcome, err
	}
	return asked, outcome, refusedNonce(parseResult(outcome.Result))
}

// refusedNonce returns the error of a request that was not applied.
func refusedNonce(v commandResult) error {
	switch v.code {
	case txn.Applied:
		return nil
	case txn.ResultExhausted:
		return status.NoncesExhausted("%s; retry, release unused nonces, or raise max_in_flight",
			v.message)
	case txn.ResultNotReady:
		return status.AccountNotReady("%s", v.message)
	case txn.ResultPaused:
		return store.ErrPaused
	case txn.ResultProtected:
		return store.ErrProtected
	case txn.ResultStale:
		return status.ErrNotApplied
	case txn.ResultNonceState:
		return status.NonceState("%s", v.message)
	}
	return declined(v)
}

// ttl returns the requested duration of a reservation.
func (s *nonceService) ttl(d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return s.options.DefaultTTL, nil
	}
	ttl := d.AsDuration()
	if ttl > s.options.MaxTTL {
		return 0, status.InvalidField("ttl", "must be at most %s (nonce_api.max_ttl)",
			s.options.MaxTTL)
	}
	return ttl, nil
}

// wireNonce returns the public form of a nonce.
func wireNonce(n store.NonceInfo) *pb.Nonce {
	out := &pb.Nonce{
		Submitter: n.Account.Name, ChainId: uint64(n.Account.Chain),
		Address: n.Account.Address.Hex(),
		Nonce:   uint64(n.Nonce), State: pb.NonceState(pb.NonceState_value["NONCE_STATE_"+
			string(n.State)]),
		ReservationId: n.Reservation.String(), Holder: n.Holder,
		ReserveTime: wireTime(n.ReservedAt), ExpireTime: wireTime(n.ExpiresAt),
		TxId: wireID(n.Tx), Reason: n.Reason, Message: n.Message,
		NeedsOperator: n.NeedsOperator, StateTime: wireTime(n.StateAt),
	}
	for _, h := range n.Hashes {
		out.TxHashes = append(out.TxHashes, h.Hex())
	}
	return out
}
