package outcome

import (
	"regexp"
	"slices"
)

var (
	batchWord  = regexp.MustCompile(`\bbatch(ed|es|ing)?\b`)
	batchLimit = regexp.MustCompile(
		`\btoo (large|long|big|many)\b|\bexceed|\blimit|\bmax(imum)?\b|\bmore than\b|\bat most\b|` +
			`\b(not|isnt|arent|doesnt|does not|no) (be )?(support|allow|enable|available)|` +
			`\bunsupported\b|\bdisabled\b`)
	// perTime matches a limit of requests per time, which a smaller batch does not help against.
	perTime = regexp.MustCompile(
		`\brate\b|\bper (sec|second|min|minute|hour|day)|\bquota\b|\bcompute units\b|\bcredits\b|` +
			`\b(try again|retry)\b`)
)

// batchStatuses are the HTTP statuses of servers that do not read a batch.
var batchStatuses = []int{400, 405, 413, 422, 501}

// batchCodes are the codes of servers that read a batch as one malformed request.
var batchCodes = []int{-32700, -32600}

// accessStatuses are the HTTP statuses about the client or its plan, not its batch.
var accessStatuses = []int{401, 402, 403, 407, 429}

// RefusesBatch reports whether a response to a batch rejects it for the number of its calls, or
// because the server takes no batches. None of the calls was processed then.
func RefusesBatch(a Response) bool {
	text := normalize(a.text())
	if batchWord.MatchString(text) && batchLimit.MatchString(text) && !perTime.MatchString(text) {
		return true
	}
	if slices.Contains(accessStatuses, a.HTTPStatus) {
		return false
	}
	return slices.Contains(batchStatuses, a.HTTPStatus) || slices.Contains(batchCodes, a.Code)
}
