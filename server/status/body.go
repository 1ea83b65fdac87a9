package status

import (
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// RequestTooLargePrefix starts the message of RequestTooLarge.
const RequestTooLargePrefix = "request: too large"

// RequestTooLarge is the status of a request over HTTP whose body, or whose response, exceeds a
// limit. It is not RESOURCE_EXHAUSTED, which some clients retry: the same request would fail again.
func RequestTooLarge(detail string) *grpcstatus.Status {
	return WithReason(
		grpcstatus.New(codes.InvalidArgument, RequestTooLargePrefix+", or its response is ("+detail+
			"); send less at once, or set a smaller page_size"),
		pb.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE,
	)
}

// BodyLate is the status of a request over HTTP whose body did not arrive in time.
func BodyLate(limit time.Duration) *grpcstatus.Status {
	return WithReason(
		grpcstatus.Newf(codes.DeadlineExceeded, "request: body not received within %v; "+
			"retry with a smaller body, or over a faster connection", limit),
		pb.ErrorReason_ERROR_REASON_BODY_LATE,
	)
}
