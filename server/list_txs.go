package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// operatorPage limits a page of operator views, each of which costs a read. A page may be shorter
// than requested.
const operatorPage = 100

// pageBytes is the size at which a page ends, in bytes. With the last row it is well below the
// 4 MiB that gRPC clients accept by default, and over HTTP each page takes several times as much
// while its JSON is written. The ledger read is at most two rows larger.
const pageBytes = 1 << 20

// ListTxs pages through transactions, newest first.
func (s *txService) ListTxs(ctx context.Context,
	r *pb.ListTxsRequest) (*pb.ListTxsResponse, error) {
	filter, digest, err := s.filter(ctx, r)
	if err != nil {
		return nil, err
	}
	size := filter.Limit
	filter.Limit++ // one more row shows whether there is another page
	filter.MaxBytes = pageBytes
	infos, err := s.store.Txs(ctx, filter)
	if err != nil {
		return nil, status.About("transactions", err)
	}
	response := &pb.ListTxsResponse{}
	bytes := 0
	for i, info := range infos {
		if i == size || bytes >= pageBytes {
			response.NextPageToken = pageToken(digest, infos[i-1].ID[:])
			break
		}
		tx, err := s.view(ctx, info, r.GetView())
		if err != nil {
			return nil, err
		}
		response.Txs = append(response.Txs, tx)
		bytes += proto.Size(tx)
	}
	return response, nil
}

// filter returns the filter of a request and its digest.
func (s *txService) filter(ctx context.Context,
	r *pb.ListTxsRequest) (filter store.TxFilter, digest []byte, err error) {
	filter.Limit, filter.Names = pageSize(r.GetPageSize()), auth.RightsOf(ctx).Submitters()
	if r.GetView() == pb.TxView_TX_VIEW_OPERATOR {
		filter.Limit = min(filter.Limit, operatorPage)
	}
	filter.Awaiting = r.GetAwaitingApproval()
	for _, state := range r.GetStates() {
		filter.States = append(filter.States, stateOfWire(state))
	}
	if err := narrow(&filter, r); err != nil {
		return filter, nil, err
	}
	if r.GetSubmitter() != "" {
		filter.Submitter, err = s.resolver.lookup(ctx, "submitter", r.GetSubmitter())
		if err != nil {
			return filter, nil, err
		}
	}
	if r.GetPool() != "" {
		if err = s.ofPool(ctx, r.GetPool(), &filter); err != nil {
			return filter, nil, err
		}
	}
	digest = txsDigest(filter.Submitter, r)
	last, err := parsePageToken(r.GetPageToken(), digest)
	if err != nil {
		return filter, nil, err
	}
	if last != nil && len(last) != len(txn.TxID{}) {
		return filter, nil, errPageToken()
	}
	copy(filter.Before[:], last)
	return filter, digest, nil
}

// ofPool narrows a filter to the transactions of a pool. A right to the pool is a right to them,
// on every account.
func (s *txService) ofPool(ctx context.Context, pool string, filter *store.TxFilter) error {
	if _, err := s.resolver.pool(ctx, pool); err != nil {
		return err
	}
	if filter.Submitter == 0 {
		filter.Names = nil
	}
	if filter.Labels == nil {
		filter.Labels = map[string]string{}
	}
	filter.Labels[store.PoolLabel] = pool
	return nil
}

// txsDigest returns the digest of a filter. It is independent of how the filter is written: the
// submitter by name or by account id, states and labels in any order.
func txsDigest(submitter txn.SubmitterID, r *pb.ListTxsRequest) []byte {
	q := &pb.ListTxsRequest{
		States:        slices.Compact(slices.Sorted(slices.Values(r.GetStates()))),
		Labels:        slices.Compact(slices.Sorted(slices.Values(r.GetLabels()))),
		CreatedFrom:   r.GetCreatedFrom(),
		CreatedBefore: r.GetCreatedBefore(),
		Pool:          r.GetPool(),

		AwaitingApproval: r.GetAwaitingApproval(),
	}
	if submitter != 0 {
		q.Submitter = fmt.Sprint(submitter)
	}
	return filterDigest(q)
}

// selectors parses labels to select, each written as key=value.
func selectors(texts []string) (labels map[string]string, found []status.Violation) {
	for i, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		if other, twice := labels[key]; twice && other != value {
			found = append(found, status.Violation{
				Field: fmt.Sprintf("labels[%d]", i),
				Message: fmt.Sprintf(
					"conflicts with an earlier value of %q; set one value for each key",
					key),
			})
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels, found
}

// narrow adds the labels and the time range of a request to a filter, and reports all violations at
// once.
func narrow(filter *store.TxFilter, r *pb.ListTxsRequest) error {
	labels, found := selectors(r.GetLabels())
	filter.Labels = labels
	for field, bound := range map[string]struct {
		of *timestamppb.Timestamp
		to *time.Time
	}{"created_from": {r.GetCreatedFrom(), &filter.CreatedFrom},
		"created_before": {r.GetCreatedBefore(), &filter.CreatedBefore}} {
		switch {
		case bound.of == nil:
		case bound.of.CheckValid() != nil:
			found = append(found, status.Violation{
				Field:   field,
				Message: "must be within years 1 to 9999, with nanos from 0 to 999999999",
			})
		default:
			*bound.to = bound.of.AsTime()
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found,
		func(a, b status.Violation) int { return strings.Compare(a.Field, b.Field) })
	return status.Invalid(found...)
}
