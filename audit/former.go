package audit

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/store"
)

// formerFormats are the words by which the releases before migration 14 recorded the violations of
// a protection, by check. They recorded no keys, so these words are how such a protection is
// recognised. Never change them; remove them with the last ledger that has such protections.
var formerFormats = map[string]string{
	"no_cursor":        "nonces are in use, and there is no cursor",
	"in_flight":        "%d transactions are in flight and not released, the limit is %d",
	"cursor_token":     "the cursor was written under token %d, the newest token is %d",
	"protection_count": "a protection is in force, and none was counted",
	"cursor_behind":    "the cursor stands at nonce %d, and nonce %d is used",
	"cursor_ahead": "the cursor stands at nonce %d, and nonces %d to %d are neither used " +
		"nor recorded as a gap",
	"nonce_reused":  "nonce %d is used twice, or lies below the first one (%d)",
	"nonce_gap":     "nonces %d to %d are neither used nor recorded as a gap",
	"event_numbers": "it has version %d and %d events, numbered %d to %d",
	"last_event":    "it is %s (executed: %s), its last event says %s (%s)",
	"event_token_falls": "%d of its events were written under a lower fencing token than one " +
		"before them",
	"event_token":    "it was written under token %d, the newest token is %d",
	"requeue_events": "it was requeued %d times by its events, and %d times by itself",
	"no_attempt":     "it has nonce %d, and no attempt is recorded for it",
	"attempt_nonce":  "%d of its attempts are for nonces that it neither has nor gave up",
	"receipt_hash": "its receipt is of a transaction that is none of its attempts for its " +
		"nonce",
	"tx_hash":       "its hash is of none of its attempts for its nonce",
	"attempt_token": "an attempt was recorded under token %d, the newest token is %d",
	"requeue_gaps":  "it was requeued %d times and has given up %d nonces",
}

// formerlyRecorded reports whether the evidence of a protection without keys has this violation.
func formerlyRecorded(v store.Violation, evidence string) bool {
	format, known := formerFormats[v.Check]
	return known && strings.Contains(evidence, describe(v, fmt.Sprintf(format, v.Values...)))
}
