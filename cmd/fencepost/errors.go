package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencepost/fencepost/internal/config"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // it was understood and did not work
	exitUsage  = 2 // it was not understood
)

// usageError says that a command line was not understood.
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
	"uint64":   "a whole number below 2^64; give one like 21000",
	"int64":    "a whole number; give one like 1",
	"int":      "a whole number; give one like 100",
	"duration": "a duration; give one with its unit, like 30s or 10m",
	"bool":     "true or false; give one of them, or the flag alone",
}

// flagError rewords an error of the flag parser.
func flagError(c *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := bad.GetFlag()
		if want := flagTypes[f.Value.Type()]; want != "" {
			return misused(c, "--%s %q is not %s", f.Name, bad.GetValue(), want)
		}
	}
	return misused(c, "%s", err)
}

// report tells an error, each of its lines after the program's name or all of it as one JSON object, and gives its exit code.
func (p *program) report(err error) int {
	if err == nil {
		return exitDone
	}
	told := failure{
		Code:     "FAILED",
		Message:  strings.ReplaceAll(err.Error(), "\n", " "),
		ExitCode: exitFailed,
	}
	var u usageError
	var coded codedError
	var remote *remoteError
	switch {
	case errors.As(err, &u):
		told.Code, told.ExitCode = "USAGE", exitUsage
	case errors.As(err, &coded):
		told.ExitCode = coded.code
	}
	if errors.As(err, &remote) {
		told.Code, told.Reason = code.Code(remote.status.Code()).String(), reasonOf(remote.status)
	}
	if errors.As(err, &told.Problems) {
		told.Message = "the configuration has " + count(len(told.Problems), "problem")
	}
	told.print(p)
	return told.ExitCode
}

// failure is an error as it is printed. The names of its fields are part of the commands' contract.
type failure struct {
	Code     string          `json:"code"`             // of the API, or USAGE, or FAILED
	Reason   string          `json:"reason,omitempty"` // of the API: see ErrorReason
	Message  string          `json:"message"`
	ExitCode int             `json:"exitCode"`
	Problems config.Problems `json:"problems,omitempty"` // of a configuration
}

func (f failure) print(p *program) {
	if p.json {
		e := json.NewEncoder(p.err)
		e.SetEscapeHTML(false)
		_ = e.Encode(f) // there is nobody left to tell that stderr is gone
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

// note tells on standard error what is no result and no error.
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

// remoteError is a refusal as a person reads it; it keeps the status.
type remoteError struct {
	text   string
	status *status.Status
}

func (e *remoteError) Error() string              { return e.text }
func (e *remoteError) GRPCStatus() *status.Status { return e.status }

// hints say which command helps on, behind what a node says to all kinds of callers.
var hints = map[string]string{
	"UNAUTHENTICATED":        `--token-file FILE (or FENCEPOST_TOKEN_FILE) sends a token, --tls-cert and --tls-key show a certificate`,
	"SUBMITTER_NOT_FOUND":    `"fencepost submitter list" tells which there are`,
	"SUBMITTER_EXISTS":       `"fencepost submitter list" tells which there are`,
	"SUBMITTER_PAUSED":       `"fencepost submitter resume NAME" ends the pause`,
	"TX_NOT_FOUND":           `"fencepost tx list" tells which there are`,
	"IDEMPOTENCY_KEY_REUSED": `"fencepost tx get --submitter NAME --request-id KEY" shows it`,
	"QUEUE_FULL":             `"fencepost tx list --state QUEUED" tells what waits, and why`,
	"NOT_YET_APPLIED":        `"fencepost submitter show NAME" tells whether one does`,
}

// filled puts what was typed in place of the NAME and KEY of a hint; a place of which nothing is known stays.
func filled(c *cobra.Command, hint string) string {
	known := map[string]string{}
	for place, flag := range map[string]string{"NAME": "submitter", "KEY": "request-id"} {
		if f := c.Flags().Lookup(flag); f != nil {
			known[place] = f.Value.String()
		}
	}
	for i, name := range argumentNames(c) {
		if given := c.Flags().Args(); name == "NAME" && i < len(given) {
			known[name] = given[i]
		}
	}
	for place, value := range known {
		if bare.MatchString(value) {
			hint = regexp.MustCompile(`\b`+place+`\b`).ReplaceAllLiteralString(hint, value)
		}
	}
	return hint
}

// bare is what can stand in a command line as it is.
var bare = regexp.MustCompile(`^[A-Za-z0-9._:/@-]+$`)

// explain says what a node has answered, or that there is none.
func (c *client) explain(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := c.sentence(s)
	if reason := reasonOf(s); reason != "" {
		if hint := hints[reason]; hint != "" {
			text += "; " + filled(c.command, hint)
		}
		text += " (" + reason + ")"
	}
	return &remoteError{text, s}
}

// sentence is what a node said, or what to do where it said nothing.
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
		return fmt.Sprintf("node %s cannot be reached: %s", c.server, unreached(s.Message()))
	case codes.DeadlineExceeded:
		return fmt.Sprintf(
			"node %s did not answer within %v; repeat the command, or give a longer --timeout",
			c.server, c.timeout)
	case codes.Canceled:
		return "interrupted; what was asked for may have been done"
	case codes.Unimplemented:
		return fmt.Sprintf(
			"what answers at %s does not know this call; give the address of a node of Fencepost, of this version or a newer one, with --server",
			c.server)
	case codes.ResourceExhausted:
		return fmt.Sprintf(
			"the answer of node %s is too large; ask for less, as with a lower --limit", c.server)
	}
	return fmt.Sprintf(
		"node %s answered %q (%s), for which it gives no reason; see its log, and whether it and this program are of one version",
		c.server, s.Message(), code.Code(s.Code()))
}

// refusedDecision is the reason of a decision that the chain or the ledger does not bear out.
const refusedDecision = "DECISION_REFUSED"

// decisions are what the contract calls them, with the flags that say the same; the longer names first.
var (
	decisions = regexp.MustCompile(
		`\b(ALIGN_FORWARD_KEEP_QUEUE|RESUME_KEEP_QUEUE|ALIGN_FORWARD|FAIL_UNPROVEN|REQUEUE_UNPROVEN|FAIL|REQUEUE|RESUME)\b`)
	decisionFlag = map[string]string{
		"ALIGN_FORWARD_KEEP_QUEUE": "--align-forward --keep-queue", "RESUME_KEEP_QUEUE": "--resume --keep-queue", "ALIGN_FORWARD": "--align-forward",
		"FAIL_UNPROVEN": "--fail --unproven", "REQUEUE_UNPROVEN": "--requeue --unproven", "FAIL": "--fail", "REQUEUE": "--requeue", "RESUME": "--resume",
	}
)

// inFlags says what a node says to all kinds of callers as it is typed here.
func inFlags(text string) string {
	return decisions.ReplaceAllStringFunc(text,
		func(decision string) string { return decisionFlag[decision] })
}

// violations are what is wrong with a request, by the names that it has on the command line.
func (c *client) violations(s *status.Status) string {
	var all []string
	for _, detail := range s.Details() {
		bad, ok := detail.(*errdetails.BadRequest)
		if !ok {
			continue
		}
		for _, v := range bad.GetFieldViolations() {
			all = append(all, typed(c.command, v.GetField())+": "+v.GetDescription())
		}
	}
	if len(all) == 0 {
		return s.Message()
	}
	return strings.Join(all, "; ")
}

// otherwise are fields that a flag has a name of its own for.
var otherwise = map[string]string{
	"max_fee":       "max-fee-gwei",
	"protection_id": "protection",
	"states":        "state",
}

// typed is what a field of the contract is called where it was typed.
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

// unreached says why a connection did not come about, and what to do, without the layers that the reason came through.
func unreached(text string) string {
	why := text
	for _, layer := range []string{"connect: ", "desc = ", "transport: ", "tls: "} {
		if i := strings.LastIndex(why, layer); i >= 0 {
			why = why[i+len(layer):]
		}
	}
	switch why = strings.Trim(why, `"`); {
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return "what answers there does not speak TLS; leave out --tls, --tls-ca and --tls-name"
	case strings.Contains(text, "handshake failed"):
		return fmt.Sprintf(
			"its certificate is not accepted (%s); name what signed it with --tls-ca, and the name in it with --tls-name",
			why)
	case strings.Contains(text, "server preface"), strings.Contains(text, "HTTP"):
		return "what answers there is no node's gRPC port, or one that wants TLS; give the port of grpc.listen with --server, or --tls"
	case strings.Contains(text, "produced zero addresses"), strings.Contains(text, "no such host"):
		return "there is no host of this name; correct --server"
	}
	return why + "; start it with \"fencepost serve\", or name another one with --server"
}

// reasonOf is the reason that a node gives with an error; empty if it gives none.
func reasonOf(s *status.Status) string {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// isUnsure tells errors after which the call may have been carried out.
func isUnsure(err error) bool {
	var e *remoteError
	return errors.As(err, &e) &&
		(e.status.Code() == codes.Unavailable || e.status.Code() == codes.DeadlineExceeded || e.status.Code() == codes.Canceled)
}
