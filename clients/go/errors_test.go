package fencepost_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepost "github.com/fencepost/fencepost/clients/go"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Which errors a watch outlives is told by one table, which the tests of all languages go through.
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
				want := map[string]bool{"always": true, "never": false, "without a reason": reason == "", "with a delay": delay > 0}
				e := fencepost.ErrorOf(fmt.Errorf("call: %w", answered(t, code, reason, delay)))
				if is, known := want[line[1]]; !known || e.Resumable() != is {
					t.Errorf("%v with reason %q and delay %v is resumable: %v, want %s", code, reason, delay, e.Resumable(), line[1])
				}
			}
		}
	}
}

// answered is an error of a stub.
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
		t.Error("nil is an error")
	}
	e := fencepost.ErrorOf(answered(t, codes.ResourceExhausted, "NODE_BUSY", time.Second))
	if e.Reason != pb.ErrorReason_ERROR_REASON_NODE_BUSY || e.RetryAfter != time.Second || !strings.Contains(e.Error(), "so it is") {
		t.Errorf("%+v", e)
	}
	if again := fencepost.ErrorOf(fmt.Errorf("call: %w", e)); again != e {
		t.Errorf("%v became %v", e, again)
	}
	if e := fencepost.ErrorOf(context.DeadlineExceeded); e.Code != codes.DeadlineExceeded {
		t.Error(e)
	}
}
