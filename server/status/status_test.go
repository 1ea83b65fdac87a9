package status

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/store"
)

func want(t *testing.T, s *grpcstatus.Status, code codes.Code, reason string) {
	t.Helper()
	if s.Code() != code || ReasonOf(s) != reason {
		t.Errorf("got %v with reason %q, want %v with %q", s, ReasonOf(s), code, reason)
	}
}

func TestFrom_MappedError_HidesDriverText(t *testing.T) {
	t.Parallel()
	for _, m := range mappings {
		s := From(fmt.Errorf("store: read row 7: %w: dial tcp 10.0.0.1: refused", m.is), "id")
		want(t, s, m.code, ReasonName(m.reason))
		if strings.Contains(s.Message(), "10.0.0.1") || strings.Contains(s.Message(), "row 7") {
			t.Errorf("%v: the message is %q", m.is, s.Message())
		}
	}
}

func TestFrom_ContextError_HasCodeOfContext(t *testing.T) {
	t.Parallel()
	for code, err := range map[codes.Code]error{
		codes.Canceled:         context.Canceled,
		codes.DeadlineExceeded: context.DeadlineExceeded,
	} {
		if s := From(fmt.Errorf("store: read: %w", err), ""); s.Code() != code {
			t.Errorf("the status of %v has the code %v", err, s.Code())
		}
	}
}

// Every reason of the contract belongs to some error of this package.
func TestReasons_AllHaveAnError(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range mappings {
		seen[ReasonName(m.reason)] = true
	}
	for _, err := range []error{
		errors.New("defect"), Invalid(), UnknownField(), PayloadTooLarge(2, 1),
		PermissionDenied("no"), DecisionRefused("no"), ProtectionChanged("no"), PauseChanged("no"),
		SubmitterProtected("no"), SubmitterPaused("no"), NodeBusy(time.Second, "no"),
		&store.MovedError{Ledger: "us1"},
		CallerLimited(time.Second, "no"), PolicyDenied("one", &store.PolicyError{}),
		NonceAPIDisabled(), SubmitterMode("no"),
		NonceState("no"), NoncesExhausted("no"), AccountNotReady("no"),
		QueueFull(&store.QueueFullError{}),
	} {
		seen[ReasonOf(From(fmt.Errorf("server: decide: %w", err), ""))] = true
	}
	seen[ReasonOf(RequestTooLarge("no"))] = true
	seen[ReasonOf(BodyLate(time.Second))] = true
	for number := range pb.ErrorReason_name {
		if reason := pb.ErrorReason(number); number != 0 && !seen[ReasonName(reason)] {
			t.Errorf("no error has the reason %v", reason)
		}
	}
}

func TestMappings_CodesAgreeWithErrorsDoc(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]codes.Code{}
	row := regexp.MustCompile(`(?m)^\| ([A-Z_]+) \| ([A-Z_]+) \| \d+ \|`)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(`"` + m[2] + `"`)); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
		documented[m[1]] = code
	}
	for _, m := range mappings {
		name := ReasonName(m.reason)
		if code, ok := documented[name]; !ok || code != m.code {
			t.Errorf("%s has the code %v here, and %v in the document (%v)", name, m.code, code, ok)
		}
	}
}

func TestFrom_Moved_NamesLedger(t *testing.T) {
	t.Parallel()
	s := From(AboutSubmitter("alice", fmt.Errorf("store: read: %w",
		&store.MovedError{Submitter: "alice", Ledger: "us1"})), "id")
	want(t, s, codes.FailedPrecondition, "SUBMITTER_MOVED")
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok &&
			info.GetMetadata()[metadataLedger] != "us1" {
			t.Errorf("metadata %v", info.GetMetadata())
		}
	}
}
