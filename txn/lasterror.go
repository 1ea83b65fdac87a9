package txn

import (
	"fmt"
	"strings"
)

// sinceThen separates the base of LastError from the answer that was appended to it.
const sinceThen = "; since then "

// appendError sets LastError to a base and a later answer, which does not replace the base.
func (next *Status) appendError(base, answer string) {
	next.LastErrorBase, next.LastError = base, base+sinceThen+answer
}

// baseError is LastError without the answer that was appended to it.
func (next *Status) baseError() string {
	if appended(next.LastError, next.LastErrorBase) {
		return next.LastErrorBase
	}
	return next.LastError
}

// validBase is the base of a LastError, or empty if LastError was replaced since then.
func validBase(lastError, base string) string {
	if appended(lastError, base) {
		return base
	}
	return ""
}

func appended(lastError, base string) bool { return strings.HasPrefix(lastError, base+sinceThen) }

// BaseOf is the LastErrorBase of a recorded transaction. The releases before migration 16 did not
// record it, so it is cut from LastError in their rows. Remove this with the last such ledger.
func BaseOf(lastError, recorded string) string {
	if base := validBase(lastError, recorded); base != "" {
		return base
	}
	if base, _, found := strings.Cut(lastError, sinceThen); found {
		return base
	}
	return ""
}

// markUnproven turns the outcome "not executed" into unknown, for a transaction that may have
// executed in the part that the ledger lost.
func (next *Status) markUnproven() {
	next.LastError = RestoredMayHaveExecuted(next.Reason, next.LastError)
	next.Executed, next.Reason = Unknown, ReasonRestored
}

// RestoredMayHaveExecuted returns the message of such an outcome: its cause, and the doubt about
// the execution.
func RestoredMayHaveExecuted(reason, message string) string {
	if message != "" {
		reason += ": " + message
	}
	return "final (" + reason + "), but it may have executed: the ledger was restored from a " +
		"backup, or failed over, and transactions that it lost are unknown; check the chain " +
		"before you resend"
}

func broadcastMessage(n int, last Class) string {
	return fmt.Sprintf(
		"broadcast %d times and not included (last response: %s); still tracked and rebroadcast",
		n, last)
}
