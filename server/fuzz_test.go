package server

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/auth"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/server/web"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// fakeStore resolves every name to one submitter and has no transactions: fuzzed requests reach
// every check that needs no ledger.
type fakeStore struct{ Store }

func (fakeStore) Lookup(context.Context, string) (txn.SubmitterID, error) { return 1, nil }
func (fakeStore) TxByRequest(context.Context, txn.SubmitterID, string) (store.TxInfo, error) {
	return store.TxInfo{}, store.ErrTxNotFound
}

// newMessage returns an empty message of a type of the contract.
func newMessage(t testing.TB, of protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return kind.New().Interface()
}

// FuzzRequest decodes bytes, or JSON, as the request of each RPC in turn, and applies all checks
// that need no ledger. For any input there is no panic and no internal error: the request is
// rejected with reason and fields, or it is valid.
func FuzzRequest(f *testing.F) {
	s, err := New(Options{Store: fakeStore{}})
	if err != nil {
		f.Fatal(err)
	}
	names := []string{}
	for name := range methods() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, r := range slices.Concat(createRefusals(), readRefusals("x"), labelRefusals(),
		batchRefusals(), submitterRefusals(), watchRefusals("x", "t.a", "a.b"),
		severalRefusals("x", "x", "t.a")) {
		raw, err := proto.Marshal(r.ask)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(slices.Index(names, r.method)), false, raw)
		if text, err := protojson.Marshal(r.ask); err == nil {
			f.Add(uint8(slices.Index(names, r.method)), true, text)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, text bool, raw []byte) {
		m := methods()[names[int(which)%len(names)]]
		request := newMessage(t, m.Input())
		if text {
			err := web.NewJSONCodec(protoregistry.GlobalTypes).Unmarshal(raw, request)
			if err != nil && !strings.HasPrefix(err.Error(), "invalid_argument: ") {
				t.Fatalf("invalid JSON is reported as %v", err)
			}
			if err != nil {
				return
			}
		} else if proto.Unmarshal(raw, request) != nil {
			return
		}
		err := s.validator.Check(request)
		if err == nil {
			err = s.checkHandler(t, request)
		}
		checkRefusal(t, request, err)
	})
}

// checkHandler applies the checks of the handlers that precede the first read of the ledger.
func (s *Server) checkHandler(t *testing.T, request proto.Message) error {
	txs, ctx := s.txs, auth.WithRights(t.Context(), auth.Everything())
	switch r := request.(type) {
	case *pb.CreateTxRequest:
		intent, err := txs.intent(ctx, r)
		if err == nil {
			checkIntent(t, intent)
		}
		return err
	case *pb.BatchCreateTxRequest:
		b := &batch{txService: txs, requests: r.GetRequests(),
			errs: make([]error, len(r.GetRequests()))}
		b.checkAll(ctx)
		for i, err := range b.errs {
			if checkRefusal(t, r.GetRequests()[i], err); err == nil {
				checkIntent(t, b.intents[i])
			}
		}
		return nil
	case *pb.ListTxsRequest:
		_, _, err := txs.filter(ctx, r)
		return err
	case *pb.WatchTxRequest:
		for _, of := range []feed.Target{
			{}, {Submitter: 1}, {Tx: txn.TxID{1}},
			{Txs: feed.NewIDSet([]txn.TxID{{1}, {2}})}, {States: feed.States(txn.Stuck)},
		} {
			if _, err := feed.ParseToken(r.GetResumeToken(), of); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkIntent checks a transaction that would be written to the ledger.
func checkIntent(t *testing.T, i store.Intent) {
	t.Helper()
	for _, text := range []string{i.RequestID} {
		if n := utf8.RuneCountInString(text); n < 1 || n > 128 ||
			strings.ContainsAny(text, "\x00\n") {
			t.Errorf("request_id %q is accepted", text)
		}
	}
	for key, value := range i.Labels {
		if key == "" || len(key) > 63 || utf8.RuneCountInString(value) > 128 ||
			strings.ContainsRune(value, 0) {
			t.Errorf("label %q=%q is accepted", key, value)
		}
	}
	switch {
	case len(i.Labels) > 16:
		t.Errorf("%d labels are accepted", len(i.Labels))
	case i.Payload.To == nil && len(i.Payload.Data) == 0:
		t.Error("an empty payload without recipient is accepted")
	case len(i.Payload.Data) > 126<<10 || i.Payload.GasLimit > 1<<63-1:
		t.Errorf("%d bytes and %d gas are accepted", len(i.Payload.Data), i.Payload.GasLimit)
	case !i.Terms.NotAfter.IsZero() && i.Terms.NotAfter.Before(time.Unix(0, 1000)):
		t.Errorf("the deadline %v is accepted", i.Terms.NotAfter)
	}
}

// checkRefusal checks that a rejected request has a reason, and each violation a field.
func checkRefusal(t *testing.T, request proto.Message, err error) {
	t.Helper()
	if err == nil {
		return
	}
	s := status.From(err, "id")
	if s.Code() != codes.InvalidArgument || status.ReasonOf(s) == "" {
		t.Fatalf("%v is rejected with %v (%v)", request, s, err)
	}
	for _, d := range s.Details() {
		if b, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range b.GetFieldViolations() {
				if v.GetField() == "" || v.GetDescription() == "" {
					t.Errorf("a violation of %v has no field or description: %v", request, v)
				}
			}
			return
		}
	}
	t.Errorf("%v is rejected without a field: %v", request, s)
}
