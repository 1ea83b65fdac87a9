package server

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/txn"
)

// terms applies the checks that the proto rules cannot express, and reports all violations.
func terms(t *pb.Terms) (out txn.Terms, found []status.Violation) {
	out = txn.Terms{Speed: speedOfWire(t.GetSpeed()), CancelLate: t.GetCancelLate()}
	var err error
	if out.MaxFee, err = maxFee(t.GetMaxFee()); err != nil {
		found = append(found, status.Violation{Field: "terms.max_fee", Message: err.Error()})
	}
	if t.GetNotAfter() != nil {
		if out.NotAfter, err = deadline(t.GetNotAfter()); err != nil {
			found = append(found, status.Violation{Field: "terms.not_after", Message: err.Error()})
		}
	} else if out.CancelLate {
		found = append(found, status.Violation{Field: "terms.cancel_late",
			Message: "requires a deadline; set not_after, or omit cancel_late"})
	}
	return out, found
}

// maxFee parses a fee limit; empty sets none. Zero is rejected: it would let nothing through, or
// everything if it were taken for no limit.
func maxFee(text string) (txn.Wei, error) {
	fee, err := txn.ParseWei(text)
	if err == nil && text != "" && fee.IsZero() {
		return fee, errors.New(
			"must be above 0; leave it empty to set no limit")
	}
	return fee, err
}

// deadline converts a time to the precision of the ledger, which stores "none" as 1970.
func deadline(t *timestamppb.Timestamp) (time.Time, error) {
	if t.CheckValid() != nil {
		return time.Time{}, errors.New(
			"must be within years 1 to 9999, with nanos from 0 to 999999999")
	}
	at := t.AsTime().Truncate(time.Microsecond)
	if at.UnixMicro() <= 0 {
		return time.Time{}, errors.New("must be after 1970; omit it to set no deadline")
	}
	return at, nil
}

// speedOfWire returns the standard speed for an unspecified one.
func speedOfWire(s pb.TxSpeed) txn.Speed {
	if s == pb.TxSpeed_TX_SPEED_UNSPECIFIED || s == pb.TxSpeed_TX_SPEED_STANDARD {
		return txn.Standard
	}
	return txn.Speed(strings.TrimPrefix(s.String(), "TX_SPEED_"))
}

func wireSpeed(s txn.Speed) pb.TxSpeed {
	if s == txn.Standard {
		return pb.TxSpeed_TX_SPEED_STANDARD
	}
	return pb.TxSpeed(pb.TxSpeed_value["TX_SPEED_"+string(s)])
}

// wireTerms returns nil for the default terms.
func wireTerms(t txn.Terms) *pb.Terms {
	if t == (txn.Terms{}) {
		return nil
	}
	return &pb.Terms{
		Speed:      wireSpeed(t.Speed),
		MaxFee:     wireLimit(t.MaxFee),
		NotAfter:   wireTime(t.NotAfter),
		CancelLate: t.CancelLate,
	}
}

// wireLimit returns "" for no limit.
func wireLimit(w txn.Wei) string {
	if w.IsZero() {
		return ""
	}
	return w.Dec()
}
