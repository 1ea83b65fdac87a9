package fencepost_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepost "github.com/fencepost/fencepost/clients/go"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// setting returns an address or value that `make clients-test` provides: of a real node, or of the
// scripted server (e2e/clients_scripted_test.go).
func setting(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv("FENCEPOST_TEST_" + name)
	if value == "" {
		t.Fatalf("FENCEPOST_TEST_%s is not set: run make clients-test", name)
	}
	return value
}

func connect(t *testing.T, target string, o fencepost.Options) *fencepost.Client {
	t.Helper()
	c, err := fencepost.Connect(target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func scripted(t *testing.T, o fencepost.Options) *fencepost.Client {
	t.Helper()
	return connect(t, setting(t, "SCRIPTED"), o)
}

func create(ctx context.Context, c *fencepost.Client, what string) (*pb.Tx, error) {
	answer, err := c.Txs.CreateTx(ctx,
		&pb.CreateTxRequest{Submitter: "alice", RequestId: "go/" + what, Payload: &pb.Payload{}})
	return answer.GetTx(), err
}

// calls returns how often a request reached the node.
func calls(t *testing.T, c *fencepost.Client, what string) uint64 {
	t.Helper()
	key := &pb.RequestKey{Submitter: "alice", RequestId: "go/" + what}
	answer, err := c.Txs.GetTx(t.Context(),
		&pb.GetTxRequest{Key: &pb.GetTxRequest_Request{Request: key}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetTx().GetVersion()
}

func TestCall_Unavailable_Retried(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{})
	for _, what := range []string{"flaky", "busy"} {
		if tx, err := create(t.Context(), c, what); err != nil || tx.GetVersion() != 3 {
			t.Errorf("%s: call %d, %v", what, tx.GetVersion(), err)
		}
	}
}

func TestCall_TypedErrors(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{})
	for what, want := range map[string]fencepost.Error{
		"full": {Code: codes.ResourceExhausted},
		"wrong": {
			Code:       codes.InvalidArgument,
			Reason:     pb.ErrorReason_ERROR_REASON_INVALID_FIELD,
			ReasonName: "INVALID_FIELD",
		},
		"defect": {
			Code:       codes.Internal,
			Reason:     pb.ErrorReason_ERROR_REASON_INTERNAL,
			ReasonName: "INTERNAL",
			RequestID:  "call-1",
		},
		"novel": {
			Code:       codes.FailedPrecondition,
			ReasonName: "NOT_INVENTED_YET",
			RetryAfter: 1500 * time.Millisecond,
		},
	} {
		_, err := create(t.Context(), c, what)
		var e *fencepost.Error
		if !errors.As(err, &e) || status.Code(err) != want.Code {
			t.Errorf("%s: %v", what, err)
			continue
		}
		got := fencepost.Error{
			Code:       e.Code,
			Reason:     e.Reason,
			ReasonName: e.ReasonName,
			RetryAfter: e.RetryAfter,
			RequestID:  e.RequestID,
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || e.Message != "scripted" {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
		if what == "wrong" &&
			!slices.Equal(e.Violations,
				[]fencepost.Violation{{Field: "payload.to", Description: "must be an address"}}) {
			t.Errorf("violations: %v", e.Violations)
		}
		if n := calls(t, c, what); n != 1 {
			t.Errorf("%s: repeated, %d calls in all", what, n)
		}
	}
}

func TestCall_Timeout(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{Timeout: 200 * time.Millisecond})
	_, err := create(t.Context(), c, "slow")
	var e *fencepost.Error
	if !errors.As(err, &e) || e.Code != codes.DeadlineExceeded {
		t.Error(err)
	}
}

func TestConnect_TLSAndToken(t *testing.T) {
	t.Parallel()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(setting(t, "CERTS"), name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := fencepost.TLS{
		CA:          read("ca.pem"),
		Certificate: read("client.pem"),
		Key:         read("client-key.pem"),
		ServerName:  "node.test",
	}
	tx, err := create(t.Context(),
		connect(t, setting(t, "TLS"), fencepost.Options{TLS: &good, Token: "secret"}), "whoami")
	if err != nil || tx.GetLastError() != "Bearer secret" || tx.GetReason() != "caller" {
		t.Errorf("the node sees token %q and certificate %q, %v", tx.GetLastError(),
			tx.GetReason(), err)
	}
	for what, bad := range map[string]fencepost.TLS{
		"other name": {
			CA: good.CA, Certificate: good.Certificate, Key: good.Key, ServerName: "other.test",
		},
		"no certificate": {CA: good.CA, ServerName: "node.test"},
		"other CA": {
			CA: good.Certificate, Certificate: good.Certificate, Key: good.Key,
			ServerName: "node.test",
		},
	} {
		_, err := create(t.Context(),
			connect(t, setting(t, "TLS"), fencepost.Options{TLS: &bad, Timeout: time.Second}),
			"whoami")
		if status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := fencepost.Connect("127.0.0.1:1", fencepost.Options{Token: "secret"}); err == nil {
		t.Error("a token was accepted over plain text")
	}
}

// A guarded node requires certificate and token, and reports a missing token.
func TestConnect_GuardedNode(t *testing.T) {
	t.Parallel()
	pem := map[string][]byte{}
	for _, name := range []string{"ca.pem", "client.pem", "client-key.pem"} {
		text, err := os.ReadFile(filepath.Join(setting(t, "CERTS"), name))
		if err != nil {
			t.Fatal(err)
		}
		pem[name] = text
	}
	options := fencepost.Options{
		TLS: &fencepost.TLS{
			CA:          pem["ca.pem"],
			Certificate: pem["client.pem"],
			Key:         pem["client-key.pem"],
			ServerName:  "node.test",
		},
	}
	request := &pb.CreateTxRequest{
		Submitter: "s00",
		RequestId: "go/guarded",
		Payload:   &pb.Payload{To: "0x00000000000000000000000000000000000000aa", Value: "1"},
	}
	for _, token := range []string{"", "some-other-token-0123456789"} {
		options.Token = token
		_, err := connect(t, setting(t, "GUARDED"), options).CreateAndWait(t.Context(), request)
		var e *fencepost.Error
		if !errors.As(err, &e) || e.Reason != pb.ErrorReason_ERROR_REASON_UNAUTHENTICATED ||
			e.Code != codes.Unauthenticated {
			t.Errorf("with the token %q: %v", token, err)
		}
	}
	options.Token = setting(t, "TOKEN")
	tx, err := connect(t, setting(t, "GUARDED"), options).CreateAndWait(t.Context(), request)
	if err != nil || tx.GetState() != pb.TxState_TX_STATE_CONFIRMED {
		t.Errorf("%v, %v", tx, err)
	}
}

// delivered returns the messages of a watch, up to a limit.
func delivered(t *testing.T, c *fencepost.Client, what string, most int) (all []string, err error) {
	t.Helper()
	return deliveredBy(t, c,
		&pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "go/" + what}}, most)
}

func deliveredBy(t *testing.T, c *fencepost.Client, request *pb.WatchTxRequest,
	most int) (all []string, err error) {
	t.Helper()
	for m, err := range c.Watch(t.Context(), request) {
		if err != nil {
			return all, err
		}
		switch {
		case m.GetEvent() != nil:
			all = append(all, fmt.Sprintf("%s %d", m.GetEvent().GetTxId(), m.GetEvent().GetSeq()))
		case m.GetSnapshot() != nil:
			all = append(all,
				fmt.Sprintf("%s as of %d", m.GetSnapshot().GetTxId(), m.GetSnapshot().GetVersion()))
		case m.GetHeartbeat() != nil:
			all = append(all, "heartbeat")
		}
		if len(all) == most {
			return all, nil
		}
	}
	return all, nil
}

func TestWatch_BrokenStream_Resumes(t *testing.T) {
	t.Parallel()
	for what, want := range map[string][]string{
		"drains":    {"tx 1", "tx 2"},
		"ends":      {"tx 1", "tx 2"},
		"silent":    {"tx 1", "tx 2"},
		"snapshots": {"kept as of 2", "heartbeat", "kept 3", "new 1"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := scripted(t, fencepost.Options{Heartbeat: 200 * time.Millisecond})
			got, err := delivered(t, c, what, len(want))
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("delivered %q, %v", got, err)
			}
		})
	}
}

// Snapshots include final transactions, and the watch ends with the stream.
func TestWatch_Several(t *testing.T) {
	t.Parallel()
	request := &pb.WatchTxRequest{
		Target: &pb.WatchTxRequest_Txs{
			Txs: &pb.TxIds{TxIds: []string{"go/several", "another"}},
		},
		UntilFinal: true,
	}
	got, err := deliveredBy(t, scripted(t, fencepost.Options{}), request, 100)
	if want := []string{"done as of 5", "on as of 1", "heartbeat", "on 2", "on 3"}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("delivered %q, %v", got, err)
	}
}

func TestWatch_FinalErrors(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{Patience: 500 * time.Millisecond})
	for what, want := range map[string]struct {
		reason    pb.ErrorReason
		delivered int
	}{
		"expired": {pb.ErrorReason_ERROR_REASON_RESUME_TOKEN_EXPIRED, 1},
		"refused": {pb.ErrorReason_ERROR_REASON_SUBMITTER_NOT_FOUND, 0},
		"down":    {pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE, 0},
	} {
		got, err := delivered(t, c, what, 10)
		var e *fencepost.Error
		if !errors.As(err, &e) || e.Reason != want.reason || len(got) != want.delivered {
			t.Errorf("%s: delivered %q, %v", what, got, err)
		}
	}
}

// A stream that broke while the caller was busy is resumed.
func TestWatch_SlowCaller_Resumes(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{Patience: 200 * time.Millisecond})
	var seqs []uint64
	request := &pb.WatchTxRequest{
		Target: &pb.WatchTxRequest_Submitter{Submitter: "go/slow/drains"},
	}
	for m, err := range c.Watch(t.Context(), request) {
		if err != nil {
			t.Fatal(err)
		}
		if seqs = append(seqs, m.GetEvent().GetSeq()); len(seqs) == 2 {
			break
		}
		<-time.After(400 * time.Millisecond)
	}
	if !slices.Equal(seqs, []uint64{1, 2}) {
		t.Errorf("delivered %d", seqs)
	}
}

func TestWatch_ContextCancelled_Ends(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := error(nil)
	request := &pb.WatchTxRequest{
		Target: &pb.WatchTxRequest_Submitter{Submitter: "go/cancelled/silent"},
	}
	for m, failed := range c.Watch(ctx, request) {
		if err = failed; m != nil {
			cancel()
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A full queue returns a retry delay. A client with enough time succeeds; the others get the error
// with the delay.
func TestCall_QueueFull_RetriedAfterDelay(t *testing.T) {
	t.Parallel()
	c := connect(t, setting(t, "NARROW"), fencepost.Options{})
	// connects, so that short deadlines below do not include it
	if _, err := c.Txs.ListTxs(t.Context(), &pb.ListTxsRequest{PageSize: 1}); err != nil {
		t.Fatal(err)
	}
	all := func(limit time.Duration) (errs []error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		ended := make(chan error, 6)
		for i := range cap(ended) {
			go func() {
				_, err := c.Txs.CreateTx(ctx, &pb.CreateTxRequest{
					Submitter: "s00",
					RequestId: fmt.Sprint("go/full/", i),
					Payload: &pb.Payload{
						To: "0x00000000000000000000000000000000000000aa", Value: "1",
					},
				})
				ended <- err
			}()
		}
		for range cap(ended) {
			errs = append(errs, <-ended)
		}
		return errs
	}
	full := 0
	for _, err := range all(900 * time.Millisecond) {
		var e *fencepost.Error
		if errors.As(err, &e) && e.Code == codes.ResourceExhausted &&
			e.Reason == pb.ErrorReason_ERROR_REASON_QUEUE_FULL &&
			e.RetryAfter >= time.Second {
			full++
		} else if err != nil && status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	}
	if full == 0 {
		t.Error("no call returned QUEUE_FULL")
	}
	for _, err := range all(time.Minute) {
		if err != nil {
			t.Errorf("the client did not retry: %v", err)
		}
	}
}

func TestCreateAndWait(t *testing.T) {
	t.Parallel()
	c := connect(t, setting(t, "NODE"), fencepost.Options{})
	request := &pb.CreateTxRequest{
		Submitter: "s00",
		RequestId: "go/wait",
		Payload:   &pb.Payload{To: "0x00000000000000000000000000000000000000aa", Value: "1"},
	}
	for range 2 { // the second call finds it final
		tx, err := c.CreateAndWait(t.Context(), request)
		if err != nil || tx.GetState() != pb.TxState_TX_STATE_CONFIRMED ||
			tx.GetExecuted() != pb.Executed_EXECUTED_SUCCESS ||
			tx.GetReceipt() == nil {
			t.Fatalf("%v, %v", tx, err)
		}
	}
	request.Payload.Value = "2"
	_, err := c.CreateAndWait(t.Context(), request)
	var e *fencepost.Error
	if !errors.As(err, &e) || e.Reason != pb.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED {
		t.Error(err)
	}
}

// Close ends everything under way, and later calls fail.
func TestClose_EndsCallsAndWatches(t *testing.T) {
	t.Parallel()
	watch := func(what string) func(*fencepost.Client) error {
		return func(c *fencepost.Client) error {
			_, err := delivered(t, c, what, 10)
			return err
		}
	}
	call := func(what string) func(*fencepost.Client) error {
		return func(c *fencepost.Client) error {
			_, err := create(t.Context(), c, what)
			return err
		}
	}
	for what, ask := range map[string]func(*fencepost.Client) error{
		"watch":           watch("closed/silent"),
		"watch in a wait": watch("closed/down"),
		"call":            call("closed/slow"),
		"call in a wait":  call("closed/later"),
		"stream of a stub": func(c *fencepost.Client) error {
			stream, err := c.Txs.WatchTx(t.Context(), &pb.WatchTxRequest{
				Target: &pb.WatchTxRequest_Submitter{Submitter: "go/closed/stub/silent"},
			})
			for err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := scripted(t, fencepost.Options{})
			ended := begin(func() error { return ask(c) })
			select {
			case err := <-ended:
				t.Fatalf("ended early: %v", err)
			case <-time.After(500 * time.Millisecond):
			}
			_ = c.Close()
			for _, when := range []string{"under way", "later"} {
				select {
				case err := <-ended:
					if status.Code(err) != codes.Canceled || !errors.Is(err, fencepost.ErrClosed) {
						t.Errorf("%s: %v", when, err)
					}
				case <-time.After(5 * time.Second):
					t.Fatalf("%s: did not end", when)
				}
				ended = begin(func() error { return ask(c) })
			}
		})
	}
}

// begin runs a call concurrently.
func begin(call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return ended
}

// Pages of transactions can exceed gRPC's default message size.
func TestCall_LargeResponse(t *testing.T) {
	t.Parallel()
	answer, err := scripted(t, fencepost.Options{}).Txs.ListTxs(t.Context(), &pb.ListTxsRequest{})
	if err != nil || len(answer.GetTxs()) != 50 {
		t.Errorf("%d transactions, %v", len(answer.GetTxs()), err)
	}
}

// A node rejects such heartbeats; the client waits long enough for the rejection.
func TestWatch_HeartbeatOutOfRange_Rejected(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{Patience: 200 * time.Millisecond})
	for _, heartbeat := range []*durationpb.Duration{
		{}, {Seconds: -1}, {Nanos: 1000}, {Seconds: 10_000_000_000},
	} {
		request := &pb.WatchTxRequest{
			Target:    &pb.WatchTxRequest_Submitter{Submitter: "go/picky"},
			Heartbeat: heartbeat,
		}
		for _, err := range c.Watch(t.Context(), request) {
			var e *fencepost.Error
			if !errors.As(err, &e) || e.Reason != pb.ErrorReason_ERROR_REASON_INVALID_FIELD {
				t.Errorf("heartbeat %v: %v", heartbeat, err)
			}
		}
	}
}

// A node rejects an empty watch, as it does an empty call of a stub.
func TestWatch_Empty_Rejected(t *testing.T) {
	t.Parallel()
	c := connect(t, setting(t, "NODE"), fencepost.Options{})
	for _, request := range []*pb.WatchTxRequest{nil, {}} {
		for _, err := range c.Watch(t.Context(), request) {
			if e := fencepost.ErrorOf(err); e == nil ||
				e.Reason != pb.ErrorReason_ERROR_REASON_INVALID_FIELD {
				t.Errorf("watch of %v: %v", request, err)
			}
		}
	}
}
