package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/clock"
)

const (
	batchRows         = 200             // in one call
	batchBytes        = 3 << 20         // in one call: below the limit of any node
	watchedRows       = 100             // in one watch
	fileProgressEvery = 2 * time.Second // between two lines of progress
	// fileOutage is how long nothing may be accepted before the command gives up.
	fileOutage = 5 * time.Minute
	shownRows  = 20    // of a list of failures
	keptRows   = 10000 // of the failures, with --json
)

// payout is a file on its way. It holds a few bytes for each row, and the requests of one batch.
type payout struct {
	p        *program
	c        *client
	file     *rowFile
	rows     []rowState // those read so far
	pending  []pendingRow
	failures map[int]rowResult // by row; at most keptRows
	since    time.Time         // when a row was last accepted
	delay    time.Duration     // before the next batch
	shown    time.Time         // when progress was last printed
}

// rowState is the knowledge about a row.
type rowState struct {
	id                                 uuid.UUID // nil until it is accepted
	line                               uint32
	state                              uint8 // a pb.TxState
	created, refused, final, succeeded bool
}

// pendingRow is a row that is not accepted yet.
type pendingRow struct {
	row     int
	request *pb.CreateTxRequest
	message string // of the last answer
}

// rowResult is a row that failed. The JSON field names are stable.
type rowResult struct {
	Line    int    `json:"line"`
	ID      string `json:"id"`
	TxID    string `json:"txId,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// summary is the result of a file. The JSON field names are stable.
type summary struct {
	Rows     int            `json:"rows"`
	Created  int            `json:"created"`  // by this run
	Existing int            `json:"existing"` // from an earlier run
	Refused  int            `json:"refused"`
	Open     int            `json:"open"`     // accepted and not final
	Final    map[string]int `json:"final"`    // by state
	Failed   int            `json:"failed"`   // refused, or final without success
	Failures []rowResult    `json:"failures"` // the first 10,000
}

// createFromFile queues the transactions of a file, and with wait follows them until all are final.
func (p *program) createFromFile(cmd *cobra.Command, f *clientFlags, t createFlags,
	args []string) error {
	for _, name := range []string{"to", "value", "data", "gas-limit", "request-id", "watch"} {
		if cmd.Flags().Changed(name) {
			return misused(cmd, "--%s and --from-file exclude each other; omit one", name)
		}
	}
	terms, err := t.terms(cmd, p.clock.Now())
	if err != nil {
		return err
	}
	if _, err := time.ParseDuration(t.notAfter); err == nil {
		return misused(cmd, "--not-after %s: must be a time with --from-file, so that a repeat "+
			"is the same request", t.notAfter)
	}
	labels, err := parseLabels(t.labels)
	if err != nil {
		return misused(cmd, "%v", err)
	}
	o := &payout{p: p, failures: map[int]rowResult{}, shown: p.clock.Now()}
	o.file, err = checkFile(t.fromFile, &pb.CreateTxRequest{
		Submitter: t.submitter, Pool: t.pool, StickyKey: t.stickyKey, Terms: terms,
		Labels: labels},
		func(rows int) { o.progress("%d rows checked", rows) })
	if err != nil {
		return err
	}
	return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
		o.c, o.rows = c, make([]rowState, 0, o.file.rows)
		err := o.queue(ctx)
		if err == nil && t.wait {
			err = o.await(ctx)
		}
		return o.report(err)
	})(cmd, args)
}

// queue sends all rows in batches. Repeating a batch is safe: each row has its request_id.
func (o *payout) queue(ctx context.Context) error {
	o.since = o.p.clock.Now()
	err := o.file.each(func(line int, q *pb.CreateTxRequest) error {
		o.pending = append(o.pending, pendingRow{row: len(o.rows), request: q})
		o.rows = append(o.rows, rowState{line: uint32(line)})
		for o.batch() < len(o.pending) || len(o.pending) >= batchRows {
			if err := o.sendBatch(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	for err == nil && len(o.pending) > 0 {
		err = o.sendBatch(ctx)
	}
	return err
}

// sendBatch sends pending rows, and waits if a node accepts none for now.
func (o *payout) sendBatch(ctx context.Context) error {
	if o.delay > 0 {
		if err := clock.Sleep(ctx, o.p.clock, o.delay); err != nil {
			return errInterrupted
		}
	}
	batch := o.pending[:o.batch()]
	again, err := o.send(ctx, batch)
	if err != nil {
		return err
	}
	sent := len(batch)
	o.pending = append(again, o.pending[sent:]...)
	o.progress("%d of %d rows queued", len(o.rows)-len(o.pending), o.file.rows)
	switch {
	case len(again) < sent:
		o.since, o.delay = o.p.clock.Now(), 0
	case o.p.clock.Now().Sub(o.since) > fileOutage:
		return fmt.Errorf("no row accepted for %s: %s", fileOutage, again[0].message)
	}
	if len(again) > 0 {
		o.delay = min(max(2*o.delay, 100*time.Millisecond), 5*time.Second)
	}
	return nil
}

// batch returns how many of the pending rows fit into a call, at least one.
func (o *payout) batch() int {
	bytes := 0
	for n, row := range o.pending[:min(batchRows, len(o.pending))] {
		if bytes += proto.Size(row.request); bytes > batchBytes && n > 0 {
			return n
		}
	}
	return min(batchRows, len(o.pending))
}

// send sends one batch, and returns the rows to send again.
func (o *payout) send(ctx context.Context, batch []pendingRow) (again []pendingRow, err error) {
	ask := &pb.BatchCreateTxRequest{}
	for _, row := range batch {
		ask.Requests = append(ask.Requests, row.request)
	}
	answer, err := call(ctx, o.c, o.c.txs.BatchCreateTx, ask)
	switch {
	case ctx.Err() != nil:
		return nil, errInterrupted
	case err != nil && retryable(status.Code(err)):
		for _, row := range batch {
			row.message = err.Error()
			again = append(again, row)
		}
		return again, nil
	case err != nil:
		return nil, err
	}
	if len(answer.GetResults()) != len(batch) {
		return nil, fmt.Errorf("the node answered %d of %d rows; check its version",
			len(answer.GetResults()), len(batch))
	}
	var unsure error
	for n, r := range answer.GetResults() {
		row := batch[n]
		at := &o.rows[row.row]
		e := r.GetError()
		if e == nil {
			at.created = r.GetCreated()
			o.know(row.row, r.GetTx())
			continue
		}
		failed := status.FromProto(e)
		if retryable(failed.Code()) {
			row.message = failed.Message()
			again = append(again, row)
			continue
		}
		if !refuses(failed.Code()) {
			unsure = cmp.Or(unsure, fmt.Errorf("outcome of the row with id %q unknown: %s (%s)",
				row.request.GetRequestId(), failed.Message(), code.Code(failed.Code())))
			continue
		}
		at.refused = true
		o.fail(row.row, rowResult{ID: row.request.GetRequestId(), Reason: reasonOf(failed),
			Message: failed.Message()})
	}
	return again, unsure
}

// refuses reports whether a code means that a row was not queued. After any other the row may be
// queued: sent again under another id, it would be paid twice.
func refuses(c codes.Code) bool {
	switch c {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	return false
}

func retryable(c codes.Code) bool {
	return c == codes.Unavailable || c == codes.ResourceExhausted ||
		c == codes.DeadlineExceeded || c == codes.Aborted
}

// know takes the state of a row from its transaction.
func (o *payout) know(row int, tx *pb.Tx) {
	o.update(row, tx.GetRequestId(), &pb.TxEvent{
		TxId: tx.GetTxId(), State: tx.GetState(), SubState: tx.GetSubState(),
		Reason: tx.GetReason(), Message: tx.GetLastError(), Executed: tx.GetExecuted(),
	})
}

func (o *payout) update(row int, requestID string, e *pb.TxEvent) {
	at := &o.rows[row]
	at.id, _ = uuid.Parse(e.GetTxId()) // nil if invalid: the row is then not followed
	at.state = uint8(e.GetState())
	switch e.GetState() {
	case pb.TxState_TX_STATE_CONFIRMED, pb.TxState_TX_STATE_FAILED_FINAL,
		pb.TxState_TX_STATE_CANCELLED:
		at.final = true
	default:
		at.final = false // a reorg may revoke an outcome
	}
	at.succeeded = e.GetExecuted() == pb.Executed_EXECUTED_SUCCESS
	delete(o.failures, row)
	if at.final && !at.succeeded {
		o.fail(row, rowResult{
			ID: requestID, TxID: e.GetTxId(), State: shownState(e.GetState(), e.GetSubState()),
			Reason: e.GetReason(), Message: e.GetMessage(),
		})
	}
}

// fail keeps a failure for the summary.
func (o *payout) fail(row int, r rowResult) {
	if len(o.failures) < keptRows {
		r.Line = int(o.rows[row].line)
		o.failures[row] = r
	}
}

// await follows all accepted rows until they are final, a hundred at a time.
func (o *payout) await(ctx context.Context) error {
	for row := 0; row < len(o.rows); {
		var ids []string
		rows, requests := map[string]int{}, map[string]string{}
		for ; row < len(o.rows) && len(ids) < watchedRows; row++ {
			if at := o.rows[row]; at.id != uuid.Nil && !at.final {
				ids = append(ids, at.id.String())
				rows[at.id.String()] = row
			}
		}
		if len(ids) == 0 {
			break
		}
		ask := &pb.WatchTxRequest{UntilFinal: true,
			Target: &pb.WatchTxRequest_Txs{Txs: &pb.TxIds{TxIds: ids}}}
		err := o.p.follow(ctx, o.c, ask, func(m *pb.WatchTxResponse) error {
			tx, e := m.GetSnapshot(), m.GetEvent()
			if row, known := rows[tx.GetTxId()]; known {
				requests[tx.GetTxId()] = tx.GetRequestId()
				o.know(row, tx)
			}
			if row, known := rows[e.GetTxId()]; known {
				o.update(row, requests[e.GetTxId()], e)
			}
			if o.p.clock.Now().Sub(o.shown) >= fileProgressEvery { // counting is not free
				s := o.summary()
				o.progress("%d of %d rows final", s.Rows-s.Open-s.Refused, s.Rows)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *payout) progress(format string, args ...any) {
	if now := o.p.clock.Now(); now.Sub(o.shown) >= fileProgressEvery {
		o.shown = now
		o.p.note(format, args...)
	}
}

func (o *payout) summary() summary {
	s := summary{Rows: o.file.rows, Final: map[string]int{}, Failures: []rowResult{}}
	for i := range o.rows {
		at := &o.rows[i]
		accepted := at.id != uuid.Nil
		switch {
		case at.refused:
			s.Refused++
		case !accepted: // not sent
		case at.created:
			s.Created++
		default:
			s.Existing++
		}
		switch {
		case !accepted:
		case at.final:
			s.Final[shownState(pb.TxState(at.state), 0)]++
		default:
			s.Open++
		}
		if at.refused || at.final && !at.succeeded {
			s.Failed++
		}
	}
	for _, row := range slices.Sorted(maps.Keys(o.failures)) {
		s.Failures = append(s.Failures, o.failures[row])
	}
	return s
}

// report prints the summary. It fails if the command was cut short, or if any row failed.
func (o *payout) report(cut error) error {
	s := o.summary()
	if err := o.p.print(s, s.print); err != nil {
		return err
	}
	switch unsent := s.Rows - s.Created - s.Existing - s.Refused; {
	case errors.Is(cut, errInterrupted):
		return fmt.Errorf("interrupted: %d rows not sent, %d not final; repeat the command to "+
			"resume (no row is sent twice)", unsent, s.Open)
	case cut != nil:
		return fmt.Errorf("%w; %d rows not sent; repeat the command to resume (no row is sent "+
			"twice)", cut, unsent)
	case unsent > 0:
		return fmt.Errorf("%d of %d rows not sent; repeat the command to resume (no row is sent "+
			"twice)", unsent, s.Rows)
	case s.Failed > 0:
		return s.failure()
	}
	return nil
}

// failure is the error of rows without success. A refused row keeps its id: a repeat of the file
// would pay it beside a copy under another id.
func (s summary) failure() error {
	const again = "correct them or the cause, keep their ids, and repeat the command"
	switch final := s.Failed - s.Refused; {
	case final == 0:
		return fmt.Errorf("%d of %d rows refused and not queued; %s", s.Refused, s.Rows, again)
	case s.Refused == 0:
		return fmt.Errorf("%d of %d rows failed; send them again under other ids, in another file",
			final, s.Rows)
	default:
		return fmt.Errorf("%d of %d rows failed (resend them under other ids, in another file), "+
			"%d refused and not queued; %s", final, s.Rows, s.Refused, again)
	}
}

func (s summary) print(w io.Writer) error {
	var states []string
	for _, state := range slices.Sorted(maps.Keys(s.Final)) {
		states = append(states, fmt.Sprintf("%s %d", state, s.Final[state]))
	}
	err := fields([]field{
		{"rows", strconv.Itoa(s.Rows)},
		{"queued now", strconv.Itoa(s.Created)},
		{"queued before", strconv.Itoa(s.Existing)},
		{"refused", strconv.Itoa(s.Refused)},
		{"not final", strconv.Itoa(s.Open)},
		{"final", cmp.Or(strings.Join(states, ", "), "0")},
	})(w)
	if err != nil || len(s.Failures) == 0 {
		return err
	}
	rows := [][]string{}
	for _, f := range s.Failures[:min(len(s.Failures), shownRows)] {
		rows = append(rows, []string{strconv.Itoa(f.Line), f.ID, shown(f.TxID),
			cmp.Or(f.State, "refused"), shown(f.Reason), cell(f.Message)})
	}
	if err := table([]string{"LINE", "ID", "TX_ID", "STATE", "REASON", "MESSAGE"}, rows)(
		w); err != nil {
		return err
	}
	if more := s.Failed - shownRows; more > 0 {
		return line("and %d more; --json lists up to %d", more, keptRows)(w)
	}
	return nil
}
