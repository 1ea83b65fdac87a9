package fencepost_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepost "github.com/fencepost/fencepost/clients/go"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// One table for all languages lists the errors after which a watch resumes.
func TestResumable(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../resumable.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil || len(lines) != 17 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, line := range lines[1:] {
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(`"` + line[0] + `"`)); err != nil {
			t.Fatal(err)
		}
		for _, reason := range []string{"", "NODE_BUSY"} {
			for _, delay := range []time.Duration{0, time.Second} {
				want := map[string]bool{
					"always":           true,
					"never":            false,
					"without a reason": reason == "",
					"with a delay":     delay > 0,
				}
				e := fencepost.ErrorOf(fmt.Errorf("call: %w", answered(t, code, reason, delay)))
				if is, known := want[line[1]]; !known || e.Resumable() != is {
					t.Errorf("%v with reason %q and delay %v is resumable: %v, want %s", code,
						reason, delay, e.Resumable(), line[1])
				}
			}
		}
	}
}

// answered returns an error as a stub does.
func answered(t *testing.T, code codes.Code, reason string, delay time.Duration) error {
	t.Helper()
	var details []protoadapt.MessageV1
	if reason != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: reason, Domain: "fencepost.dev"})
	}
	if delay > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	}
	s, err := status.New(code, "so it is").WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return s.Err()
}

func TestErrorOf(t *testing.T) {
	t.Parallel()
	if fencepost.ErrorOf(nil) != nil {
		t.Error("nil returned an error")
	}
	e := fencepost.ErrorOf(answered(t, codes.ResourceExhausted, "NODE_BUSY", time.Second))
	if e.Reason != pb.ErrorReason_ERROR_REASON_NODE_BUSY || e.RetryAfter != time.Second ||
		!strings.Contains(e.Error(), "so it is") {
		t.Errorf("%+v", e)
	}
	if again := fencepost.ErrorOf(fmt.Errorf("call: %w", e)); again != e {
		t.Errorf("%v became %v", e, again)
	}
	if e := fencepost.ErrorOf(context.DeadlineExceeded); e.Code != codes.DeadlineExceeded {
		t.Error(e)
	}
}

// Retrying such an error would never end.
func TestResumable_ClientErrors_Never(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node := grpc.NewServer()
	t.Cleanup(node.Stop)
	go func() { _ = node.Serve(listener) }()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	watch := func(ctx context.Context, c *fencepost.Client, id string) error {
		stream, err := c.Txs.WatchTx(ctx, fencepost.WatchTx(id))
		for err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for _, one := range []struct {
		what   string
		ctx    context.Context
		id     string
		closed bool
		want   codes.Code
	}{
		{"closed", t.Context(), "id", true, codes.Canceled},
		{"canceled", canceled, "id", false, codes.Canceled},
		{"not UTF-8", t.Context(), "\xff", false, codes.Internal},
	} {
		c := connect(t, listener.Addr().String(), fencepost.Options{})
		if one.closed {
			_ = c.Close()
		}
		_, called := c.Txs.GetTx(one.ctx,
			&pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: one.id}})
		watched := watch(one.ctx, c, one.id)
		for how, err := range map[string]error{"call": called, "stream": watched} {
			if e := fencepost.ErrorOf(err); e == nil || e.Code != one.want || e.Resumable() {
				t.Errorf("%s, %s: %v became %v, resumable: %v", how, one.what, err, e,
					e != nil && e.Resumable())
			}
		}
	}
	for _, err := range []error{context.Canceled, errors.New("not an API error")} {
		if e := fencepost.ErrorOf(err); e.Resumable() {
			t.Errorf("%v is resumable", e)
		}
	}
}

// A deadline error includes the failure of the attempts, as text only.
func TestDeadline_IncludesLastFailure(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused := listener.Addr().String()
	_ = listener.Close()
	c := connect(t, unused, fencepost.Options{})
	for name, call := range map[string]func(context.Context) error{
		"call": func(ctx context.Context) error {
			_, err := c.Txs.GetTx(ctx, &pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: "id"}})
			return err
		},
		"createAndWait": func(ctx context.Context) error {
			_, err := c.CreateAndWait(ctx, &pb.CreateTxRequest{})
			return err
		},
		"watch": func(ctx context.Context) error {
			for _, err := range c.Watch(ctx, fencepost.WatchTx("id")) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			err := call(ctx)
			e := fencepost.ErrorOf(err)
			if e == nil || e.Code != codes.DeadlineExceeded || e.Resumable() ||
				!strings.Contains(e.Error(), "connection refused") ||
				!strings.Contains(status.Convert(err).Message(), "connection refused") {
				t.Errorf("%v is %+v", err, e)
			}
			if name == "watch" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v is not the error of the context", err)
			}
			canceled, end := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, end)
			if err := call(canceled); name == "watch" && err != context.Canceled ||
				fencepost.ErrorOf(err).Code != codes.Canceled {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
}

func TestViolation_String(t *testing.T) {
	t.Parallel()
	all := []fencepost.Violation{{Field: "payload.to", Description: "must be an address"}}
	if got := fmt.Sprint(all); got != "[payload.to: must be an address]" {
		t.Error(got)
	}
}
