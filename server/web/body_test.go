package web

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"

	"github.com/fencepost/fencepost/server/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBodyTooLate_HasReason(t *testing.T) {
	t.Parallel()
	s := status.From(bodyTooLate(time.Second), "id")
	if s.Code() != codes.DeadlineExceeded || status.ReasonOf(s) != "BODY_LATE" {
		t.Errorf("%v, reason %q", s, status.ReasonOf(s))
	}
}
