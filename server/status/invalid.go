package status

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Violation is one mistake in a request.
type Violation struct {
	Field   string // path, as google.rpc.BadRequest has it
	Message string // predicate: "<field>: <message>" reads as a sentence
}

// InvalidError rejects a request because of its content: INVALID_ARGUMENT.
type InvalidError struct {
	reason     pb.ErrorReason
	violations []Violation
}

func (e *InvalidError) Error() string {
	texts := make([]string, len(e.violations))
	for i, v := range e.violations {
		texts[i] = v.Field + ": " + v.Message
	}
	return strings.Join(texts, "; ")
}

// Invalid rejects a request with INVALID_FIELD.
func Invalid(violations ...Violation) *InvalidError {
	return &InvalidError{pb.ErrorReason_ERROR_REASON_INVALID_FIELD, violations}
}

// InvalidField rejects a request because of one field.
func InvalidField(field, format string, args ...any) error {
	return Invalid(Violation{field, fmt.Sprintf(format, args...)})
}

// UnknownField rejects a request with fields that this server does not have.
func UnknownField(violations ...Violation) *InvalidError {
	return &InvalidError{pb.ErrorReason_ERROR_REASON_UNKNOWN_FIELD, violations}
}

// PayloadTooLarge rejects a transaction with more call data than this server accepts, in bytes.
func PayloadTooLarge(size, limit int) error {
	return &InvalidError{pb.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE, []Violation{{"payload.data",
		fmt.Sprintf("is %d bytes, above the limit of %d; "+
			"send less, or raise payload.max_bytes in the node configuration", size, limit)}}}
}

// A status travels in trailers. Many clients read at most 8 KiB of them, and close the connection
// if there is more. So the violations that a status reports are bounded, in number and in size.
const (
	// MaxViolations is how many violations of a request are reported.
	MaxViolations = 16
	// MaxFieldBytes is how much of a name that a client chose is repeated to it.
	MaxFieldBytes     = 200
	maxMessageBytes   = 600
	maxViolationBytes = 1200 // of all beyond the first
)

// reported returns the violations that fit into a status, and whether these are all.
func (e *InvalidError) reported() (few *InvalidError, all bool) {
	few = &InvalidError{reason: e.reason}
	bytes := 0
	for i, v := range e.violations {
		v = Violation{Clip(v.Field, MaxFieldBytes), Clip(v.Message, maxMessageBytes)}
		bytes += len(v.Field) + len(v.Message)
		if i == MaxViolations || i > 0 && bytes > maxViolationBytes {
			return few, false
		}
		few.violations = append(few.violations, v)
	}
	return few, true
}

func (e *InvalidError) status() *grpcstatus.Status {
	reported, all := e.reported()
	violations := make([]*errdetails.BadRequest_FieldViolation, len(reported.violations))
	for i, v := range reported.violations {
		violations[i] = &errdetails.BadRequest_FieldViolation{
			Field:       v.Field,
			Description: v.Message,
			Reason:      ReasonName(e.reason),
		}
	}
	message := reported.Error()
	if !all {
		message += "; further violations are reported once these are corrected"
	}
	return WithReason(grpcstatus.New(codes.InvalidArgument, message), e.reason,
		&errdetails.BadRequest{FieldViolations: violations})
}

// Clip shortens a text to max bytes and makes it valid UTF-8, which a protobuf string must be.
func Clip(text string, max int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= max {
		return text
	}
	return strings.ToValidUTF8(text[:max], "") + "..."
}
