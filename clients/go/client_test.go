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

// setting is what `make clients-test` starts and tells: a real node, and one that follows a script (e2e/clients_scripted_test.go).
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

// made is how often a request reached the node.
func made(t *testing.T, c *fencepost.Client, what string) uint64 {
	t.Helper()
	key := &pb.RequestKey{Submitter: "alice", RequestId: "go/" + what}
	answer, err := c.Txs.GetTx(t.Context(),
		&pb.GetTxRequest{Key: &pb.GetTxRequest_Request{Request: key}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetTx().GetVersion()
}

func TestRepeatsWhatMayBeRepeated(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{})
	for _, what := range []string{"flaky", "busy"} {
		if tx, err := create(t.Context(), c, what); err != nil || tx.GetVersion() != 3 {
			t.Errorf("%s: call %d, %v", what, tx.GetVersion(), err)
		}
	}
}

func TestErrorsAreTyped(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{})
	for what, want := range map[string]fencepost.Error{
		"full":   {Code: codes.ResourceExhausted},
		"wrong":  {Code: codes.InvalidArgument, Reason: pb.ErrorReason_ERROR_REASON_INVALID_FIELD, ReasonName: "INVALID_FIELD"},
		"defect": {Code: codes.Internal, Reason: pb.ErrorReason_ERROR_REASON_INTERNAL, ReasonName: "INTERNAL", RequestID: "call-1"},
		"novel":  {Code: codes.FailedPrecondition, ReasonName: "NOT_INVENTED_YET", RetryAfter: 1500 * time.Millisecond},
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
		if fmt.Sprint(got) != fmt.Sprint(want) || e.Message != "as the script says" {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
		if what == "wrong" &&
			!slices.Equal(e.Violations,
				[]fencepost.Violation{{Field: "payload.to", Description: "must be an address"}}) {
			t.Errorf("violations: %v", e.Violations)
		}
		if n := made(t, c, what); n != 1 {
			t.Errorf("%s: repeated, %d calls in all", what, n)
		}
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{Timeout: 200 * time.Millisecond})
	_, err := create(t.Context(), c, "slow")
	var e *fencepost.Error
	if !errors.As(err, &e) || e.Code != codes.DeadlineExceeded {
		t.Error(err)
	}
}

func TestTLSAndToken(t *testing.T) {
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
		t.Errorf("the node sees %q with the certificate of %q, %v", tx.GetLastError(),
			tx.GetReason(), err)
	}
	for what, bad := range map[string]fencepost.TLS{
		"other name":     {CA: good.CA, Certificate: good.Certificate, Key: good.Key, ServerName: "other.test"},
		"no certificate": {CA: good.CA, ServerName: "node.test"},
		"other CA":       {CA: good.Certificate, Certificate: good.Certificate, Key: good.Key, ServerName: "node.test"},
	} {
		_, err := create(t.Context(),
			connect(t, setting(t, "TLS"), fencepost.Options{TLS: &bad, Timeout: time.Second}),
			"whoami")
		if status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := fencepost.Connect("127.0.0.1:1", fencepost.Options{Token: "secret"}); err == nil {
		t.Error("a token goes over plain text")
	}
}

// A node that knows its callers lets in whoever has certificate and token, and says what is missing to whoever lacks the second.
func TestGuardedNode(t *testing.T) {
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

// told reads a watch until it has told that many things, or ends.
func told(t *testing.T, c *fencepost.Client, what string, most int) (all []string, err error) {
	t.Helper()
	return toldOf(t, c,
		&pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "go/" + what}}, most)
}

func toldOf(t *testing.T, c *fencepost.Client, request *pb.WatchTxRequest,
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

func TestWatchResumes(t *testing.T) {
	t.Parallel()
	for what, want := range map[string][]string{
		"drains":    {"tx 1", "tx 2"},
		"ends":      {"tx 1", "tx 2"},
		"silent":    {"tx 1", "tx 2"},
		"snapshots": {"kept as of 2", "heartbeat", "kept 3", "new 1"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			got, err := told(t, scripted(t, fencepost.Options{Heartbeat: 200 * time.Millisecond}),
				what, len(want))
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("told %q, %v", got, err)
			}
		})
	}
}

// A watch of several shows what is final too, goes on after the token of the last message, and ends with the stream.
func TestWatchOfSeveral(t *testing.T) {
	t.Parallel()
	request := &pb.WatchTxRequest{
		Target: &pb.WatchTxRequest_Txs{
			Txs: &pb.TxIds{TxIds: []string{"go/several", "another"}},
		},
		UntilFinal: true,
	}
	got, err := toldOf(t, scripted(t, fencepost.Options{}), request, 100)
	if want := []string{"done as of 5", "on as of 1", "heartbeat", "on 2", "on 3"}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("told %q, %v", got, err)
	}
}

func TestWatchSurfacesWhatOnlyTheCallerCanDecide(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{Patience: 500 * time.Millisecond})
	for what, want := range map[string]struct {
		reason pb.ErrorReason
		told   int
	}{
		"expired": {pb.ErrorReason_ERROR_REASON_RESUME_TOKEN_EXPIRED, 1},
		"refused": {pb.ErrorReason_ERROR_REASON_SUBMITTER_NOT_FOUND, 0},
		"down":    {pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE, 0},
	} {
		got, err := told(t, c, what, 10)
		var e *fencepost.Error
		if !errors.As(err, &e) || e.Reason != want.reason || len(got) != want.told {
			t.Errorf("%s: told %q, %v", what, got, err)
		}
	}
}

// How long the caller takes is no fault of the node: a stream that broke meanwhile is resumed all the same.
func TestWatchOfASlowCaller(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{Patience: 200 * time.Millisecond})
	var seqs []uint64
	for m, err := range c.Watch(t.Context(), &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "go/slow/drains"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if seqs = append(seqs, m.GetEvent().GetSeq()); len(seqs) == 2 {
			break
		}
		<-time.After(400 * time.Millisecond)
	}
	if !slices.Equal(seqs, []uint64{1, 2}) {
		t.Errorf("told %d", seqs)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := error(nil)
	for m, failed := range c.Watch(ctx, &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "go/cancelled/silent"}}) {
		if err = failed; m != nil {
			cancel()
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A node whose queue is full says when to come again. A client does, and at last all is accepted; one that has not the time gets the error, with when.
func TestAFullQueue(t *testing.T) {
	t.Parallel()
	c := connect(t, setting(t, "NARROW"), fencepost.Options{})
	if _, err := c.Txs.ListTxs(t.Context(), &pb.ListTxsRequest{PageSize: 1}); err != nil { // what is short of time shall not wait for a connection
		t.Fatal(err)
	}
	all := func(limit time.Duration) (errs []error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		ended := make(chan error, 6)
		for i := range cap(ended) {
			go func() {
				_, err := c.Txs.CreateTx(ctx, &pb.CreateTxRequest{
					Submitter: "s00", RequestId: fmt.Sprint("go/full/", i), Payload: &pb.Payload{To: "0x00000000000000000000000000000000000000aa", Value: "1"},
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
		t.Error("nothing was full")
	}
	for _, err := range all(time.Minute) {
		if err != nil {
			t.Errorf("the client does not come again: %v", err)
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
	for range 2 { // the second finds it final
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

// Whatever a client is asked for ends at once when the client is closed, and nothing can be asked of it later.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	watch := func(what string) func(*fencepost.Client) error {
		return func(c *fencepost.Client) error {
			_, err := told(t, c, what, 10)
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
			stream, err := c.Txs.WatchTx(t.Context(), &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "go/closed/stub/silent"}})
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
				t.Fatalf("ended before: %v", err)
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
					t.Fatalf("%s: goes on", when)
				}
				ended = begin(func() error { return ask(c) })
			}
		})
	}
}

// begin makes a call beside the test, and tells when it has ended.
func begin(call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return ended
}

// A page of transactions can be larger than what gRPC reads unless it is told to.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	answer, err := scripted(t, fencepost.Options{}).Txs.ListTxs(t.Context(), &pb.ListTxsRequest{})
	if err != nil || len(answer.GetTxs()) != 50 {
		t.Errorf("%d transactions, %v", len(answer.GetTxs()), err)
	}
}

// A heartbeat that no node grants is refused by the node: the client waits long enough to hear it.
func TestHeartbeatOutOfRange(t *testing.T) {
	t.Parallel()
	c := scripted(t, fencepost.Options{Patience: 200 * time.Millisecond})
	for _, heartbeat := range []*durationpb.Duration{{}, {Seconds: -1}, {Nanos: 1000}, {Seconds: 10_000_000_000}} {
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

// A watch of nothing is refused by the node, as any call of a stub with nothing is.
func TestWatchOfNothing(t *testing.T) {
	t.Parallel()
	c := connect(t, setting(t, "NODE"), fencepost.Options{})
	for _, request := range []*pb.WatchTxRequest{nil, {}} {
		for _, err := range c.Watch(t.Context(), request) {
			if e := fencepost.ErrorOf(err); e == nil ||
				e.Reason != pb.ErrorReason_ERROR_REASON_INVALID_FIELD {
				t.Errorf("a watch of %v: %v", request, err)
			}
		}
	}
}
