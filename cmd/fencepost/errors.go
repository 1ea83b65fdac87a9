package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencepost/fencepost/internal/config"
	remedies "github.com/fencepost/fencepost/internal/remedy"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // the command failed
	exitUsage  = 2 // the command line is invalid
)

// usageError is an invalid command line.
type usageError struct{ text string }

func (u usageError) Error() string { return u.text }

func misused(c *cobra.Command, what string, args ...any) error {
	return usageError{
		fmt.Sprintf(what, args...) + fmt.Sprintf("; see \"%s --help\"", c.CommandPath()),
	}
}

// codedError is an error with an exit code of its own.
type codedError struct {
	error
	code int
}

func (c codedError) Unwrap() error { return c.error }

// flagTypes describe the values of flags by the names of their types.
var flagTypes = map[string]string{
	"uint64":   "a whole number below 2^64, like 21000",
	"int64":    "a whole number, like 1",
	"int":      "a whole number, like 100",
	"duration": "a duration with a unit, like 30s or 10m",
	"bool":     "true or false",
}

// flagError rewords an error of the flag parser. The flags after an unknown sub-command are of
// another command than the group, so the sub-command is the error.
func flagError(c *cobra.Command, err error) error {
	if before := c.Flags().Args(); c.HasSubCommands() && len(before) > 0 {
		return unknownCommand(c, before[0])
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := bad.GetFlag()
		if want := flagTypes[f.Value.Type()]; want != "" {
			return misused(c, "--%s %q is not %s", f.Name, bad.GetValue(), want)
		}
	}
	// Of a command that creates transactions.
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok &&
		c.Flags().Lookup("data") != nil && assigned[unknown.GetSpecifiedName()] != "" {
		return misused(c, "%s; %s", err, assigned[unknown.GetSpecifiedName()])
	}
	return misused(c, "%s", err)
}

// report prints an error, as lines with the program name or as one JSON object, and returns its
// exit code.
func (p *program) report(err error) int {
	if err == nil {
		return exitDone
	}
	f := failure{
		Code:     "FAILED",
		Message:  strings.ReplaceAll(err.Error(), "\n", " "),
		ExitCode: exitFailed,
	}
	var u usageError
	var coded codedError
	var remote *remoteError
	switch {
	case errors.As(err, &u):
		f.Code, f.ExitCode = "USAGE", exitUsage
	case errors.As(err, &coded):
		f.ExitCode = coded.code
	}
	isRemote := errors.As(err, &remote)
	if !isRemote {
		f.Message = remedies.WithoutPackages(f.Message)
	}
	f.Remedy = remedyIn(f.Message)
	if isRemote {
		f.Code, f.Reason = code.Code(remote.status.Code()).String(), reasonOf(remote.status)
		if strings.HasSuffix(f.Message, remote.text) { // the command adds no remedy of its own
			f.Remedy = cmp.Or(remote.remedy, f.Remedy)
		}
	}
	if errors.As(err, &f.Problems) {
		f.Message = "invalid configuration: " + count(len(f.Problems), "problem")
		if _, ok := errors.AsType[fileProblems](err); ok {
			f.Message = "invalid file: " + count(len(f.Problems), "problem")
		}
		f.Remedy = "correct each of the problems"
	}
	f.print(p)
	return f.ExitCode
}

// failure is an error as printed with --json. The field names are stable.
type failure struct {
	Code     string          `json:"code"`             // of the API, or USAGE, or FAILED
	Reason   string          `json:"reason,omitempty"` // of the API: see ErrorReason
	Message  string          `json:"message"`
	ExitCode int             `json:"exitCode"`
	Remedy   string          `json:"remedy,omitempty"`
	Problems config.Problems `json:"problems,omitempty"` // of a configuration or a file
}

// remedyIn returns the last part of a message, which says what to do; empty if it has one part.
func remedyIn(message string) string {
	i := strings.LastIndex(message, "; ")
	if i < 0 {
		return ""
	}
	return message[i+len("; "):]
}

func (f failure) print(p *program) {
	if p.json {
		e := json.NewEncoder(p.err)
		e.SetEscapeHTML(false)
		_ = e.Encode(f) // nowhere to report a failure of stderr
		return
	}
	lines := []string{f.Message}
	if len(f.Problems) > 0 {
		lines = nil
		for _, problem := range f.Problems {
			lines = append(lines, strings.ReplaceAll(problem.String(), "\n", " "))
		}
	}
	for _, line := range lines {
		fmt.Fprintf(p.err, "fencepost: %s\n", line)
	}
}

// note prints a remark that is neither a result nor an error on standard error.
func (p *program) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !p.json {
		fmt.Fprintf(p.err, "fencepost: %s\n", text)
		return
	}
	e := json.NewEncoder(p.err)
	e.SetEscapeHTML(false)
	_ = e.Encode(struct {
		Note string `json:"note"`
	}{text})
}

// remoteError is the failure of a call, reworded for people; it keeps the status.
type remoteError struct {
	text   string
	status *status.Status
	remedy string // empty: the last part of the text
}

func (e *remoteError) Error() string              { return e.text }
func (e *remoteError) GRPCStatus() *status.Status { return e.status }

// hints name the command that helps, by reason. They follow the message of the node.
var hints = map[string]string{
	"UNAUTHENTICATED": `authenticate with --token-file FILE (or FENCEPOST_TOKEN_FILE)` +
		` or --tls-cert and --tls-key`,
	"SUBMITTER_NOT_FOUND":    `see "fencepost submitter list"`,
	"SUBMITTER_EXISTS":       `see "fencepost submitter list"`,
	"SUBMITTER_PAUSED":       `resume with "fencepost submitter resume NAME"`,
	"SUBMITTER_MOVED":        `use --server with a node of that ledger`,
	"TX_NOT_FOUND":           `see "fencepost tx list"`,
	"NONCE_NOT_FOUND":        `see "fencepost nonce list NAME"`,
	"IDEMPOTENCY_KEY_REUSED": `see "fencepost tx get --submitter NAME --request-id KEY"`,
	"QUEUE_FULL":             `see "fencepost tx list --state QUEUED"`,
	"NOT_YET_APPLIED":        `see "fencepost submitter show NAME"`,
}

// filled replaces NAME and KEY in a hint by the arguments of the command, where they are known.
func filled(c *cobra.Command, hint string) string {
	known := map[string]string{}
	for placeholder, flag := range map[string]string{"NAME": "submitter", "KEY": "request-id"} {
		if f := c.Flags().Lookup(flag); f != nil {
			known[placeholder] = f.Value.String()
		}
	}
	for i, name := range argumentNames(c) {
		given := c.Flags().Args()
		first, other, _ := strings.Cut(name, "|") // the other one comes with a second argument
		if other == "SUBMITTER" && len(given) > 1 {
			first = other
		}
		if i < len(given) && (first == "NAME" || first == "SUBMITTER") {
			known["NAME"] = given[i]
		}
	}
	for placeholder, value := range known {
		if bare.MatchString(value) {
			hint = regexp.MustCompile(`\b`+placeholder+`\b`).ReplaceAllLiteralString(hint, value)
		}
	}
	return hint
}

// bare matches arguments that need no quotes in a shell.
var bare = regexp.MustCompile(`^[A-Za-z0-9._:/@-]+$`)

// explain turns the error of a call into one for people.
func (c *client) explain(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := c.sentence(s)
	remedy := remedyIn(text)
	if fields := c.violated(s); len(fields) > 0 {
		remedy = "correct " + strings.Join(fields, ", ")
	}
	if reason := reasonOf(s); reason != "" {
		if hint := hints[reason]; hint != "" {
			remedy = filled(c.command, hint)
			text += "; " + remedy
		}
		text += " (" + reason + ")"
	}
	return &remoteError{text, s, remedy}
}

// sentence is the message of the node or, without a reason of Fencepost, an explanation.
func (c *client) sentence(s *status.Status) string {
	switch {
	case s.Code() == codes.InvalidArgument && reasonOf(s) != "":
		return c.violations(s)
	case reasonOf(s) == refusedDecision:
		return inFlags(s.Message())
	case reasonOf(s) != "":
		return s.Message()
	}
	switch s.Code() {
	case codes.Unavailable:
		return fmt.Sprintf("cannot connect to node %s: %s", c.server, unreached(s.Message()))
	case codes.DeadlineExceeded:
		return fmt.Sprintf(
			"no response from node %s within %v; retry, or raise --timeout",
			c.server, c.timeout)
	case codes.Canceled:
		return "interrupted; the request may have been processed"
	case codes.Unimplemented:
		return fmt.Sprintf(
			"the server at %s does not implement this call; check --server and the version of "+
				"the node",
			c.server)
	case codes.ResourceExhausted:
		return fmt.Sprintf(
			"the response of node %s is too large; use a lower --limit", c.server)
	}
	return fmt.Sprintf(
		"unexpected response from node %s: %q (%s); check its log and its version",
		c.server, s.Message(), code.Code(s.Code()))
}

// refusedDecision is the reason of a decision that the chain or the ledger contradicts.
const refusedDecision = "DECISION_REFUSED"

// decisions matches the names of decisions in the API, longer names first; decisionFlag has the
// equivalent flags.
var (
	decisions = regexp.MustCompile(`\b(ALIGN_FORWARD_KEEP_QUEUE|RESUME_KEEP_QUEUE|ALIGN_FORWARD|` +
		`FAIL_UNPROVEN|REQUEUE_UNPROVEN|FAIL|REQUEUE|RESUME)\b`)
	decisionFlag = map[string]string{
		"ALIGN_FORWARD_KEEP_QUEUE": "--align-forward --keep-queue",
		"RESUME_KEEP_QUEUE":        "--resume --keep-queue",
		"ALIGN_FORWARD":            "--align-forward",
		"FAIL_UNPROVEN":            "--fail --unproven",
		"REQUEUE_UNPROVEN":         "--requeue --unproven",
		"FAIL":                     "--fail",
		"REQUEUE":                  "--requeue",
		"RESUME":                   "--resume",
	}
)

// inFlags replaces the names of decisions by flags.
func inFlags(text string) string {
	return decisions.ReplaceAllStringFunc(text,
		func(decision string) string { return decisionFlag[decision] })
}

// violations are the field violations of a request, with the flags or arguments that set the
// fields.
func (c *client) violations(s *status.Status) string {
	var all []string
	for _, v := range fieldViolations(s) {
		all = append(all, typed(c.command, v.GetField())+": "+v.GetDescription())
	}
	if len(all) == 0 {
		return s.Message()
	}
	return strings.Join(all, "; ")
}

// violated are the flags and arguments of the violations, each once.
func (c *client) violated(s *status.Status) (names []string) {
	for _, v := range fieldViolations(s) {
		if name := typed(c.command, v.GetField()); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func fieldViolations(s *status.Status) (all []*errdetails.BadRequest_FieldViolation) {
	for _, detail := range s.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			all = append(all, bad.GetFieldViolations()...)
		}
	}
	return all
}

// otherwise has the flags that are not named after their field.
var otherwise = map[string]string{
	"max_fee":        "max-fee-gwei",
	"protection_id":  "protection",
	"pause_id":       "pause",
	"reservation_id": "reservation",
	"labels":         "label",
	"states":         "state",
	"resume_token":   "from",
	"before":         "to",
}

// typed is the flag or argument that sets a field of the API.
func typed(c *cobra.Command, field string) string {
	name := field[strings.LastIndex(field, ".")+1:]
	name, _, _ = strings.Cut(name, "[")
	flag := strings.ReplaceAll(name, "_", "-")
	if otherwise[name] != "" {
		flag = otherwise[name]
	}
	if c.Flags().Lookup(flag) != nil {
		return "--" + flag
	}
	for _, argument := range argumentNames(c) {
		if strings.EqualFold(argument, name) || strings.EqualFold(argument+"s", name) ||
			argument == "NAME" && name == "submitter" {
			return argument
		}
	}
	return field
}

// unreached explains a failed connection. gRPC has only text; TestErrors_WrongPort and
// TestCall_NotANode pin it.
func unreached(text string) string {
	why := text
	for _, layer := range []string{"connect: ", "desc = ", "transport: ", "tls: "} {
		if i := strings.LastIndex(why, layer); i >= 0 {
			why = why[i+len(layer):]
		}
	}
	switch why = strings.Trim(why, `"`); {
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return "the server does not use TLS; omit --tls, --tls-ca and --tls-name"
	case strings.Contains(text, "handshake failed"):
		return fmt.Sprintf(
			"certificate rejected (%s); check --tls-ca and --tls-name",
			why)
	case strings.Contains(text, "server preface"), strings.Contains(text, "HTTP"):
		return "not a gRPC port, or TLS is required; give the port of grpc.listen with --server, " +
			"or --tls"
	case strings.Contains(text, "produced zero addresses"), strings.Contains(text, "no such host"):
		return "unknown host; check --server"
	}
	return why + "; start it with \"fencepost serve\", or give another with --server"
}

// reasonOf is the reason in a status; empty if there is none.
func reasonOf(s *status.Status) string {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// isUnsure reports whether the call may have been processed despite the error.
func isUnsure(err error) bool {
	var e *remoteError
	return errors.As(err, &e) &&
		(e.status.Code() == codes.Unavailable || e.status.Code() == codes.DeadlineExceeded ||
			e.status.Code() == codes.Canceled)
}
