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

	"github.com/spf13/cobra"
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
	shownRows  = 20 // of a list of failures
)

// payout is a file on its way.
type payout struct {
	p      *program
	c      *client
	rows   []fileRow
	result []rowResult
	shown  time.Time // when progress was last printed
}

// rowResult is the state of a row. The JSON field names are stable.
type rowResult struct {
	Line    int    `json:"line"`
	ID      string `json:"id"`
	TxID    string `json:"txId,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	created, refused, final, succeeded bool
}

// summary is the result of a file. The JSON field names are stable.
type summary struct {
	Rows     int            `json:"rows"`
	Created  int            `json:"created"`  // by this run
	Existing int            `json:"existing"` // from an earlier run
	Refused  int            `json:"refused"`
	Open     int            `json:"open"`     // accepted and not final
	Final    map[string]int `json:"final"`    // by state
	Failures []rowResult    `json:"failures"` // refused, or final without success
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
	rows, err := readRows(t.fromFile, &pb.CreateTxRequest{
		Submitter: t.submitter, Terms: terms, Labels: labels})
	if err != nil {
		return err
	}
	return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
		o := &payout{p: p, c: c, rows: rows, result: make([]rowResult, len(rows)),
			shown: p.clock.Now()}
		for i, row := range rows {
			o.result[i] = rowResult{Line: row.line, ID: row.request.GetRequestId()}
		}
		err := o.queue(ctx)
		if err == nil && t.wait {
			err = o.await(ctx)
		}
		return o.report(err)
	})(cmd, args)
}

// queue sends all rows in batches. Repeating a batch is safe: each row has its request_id.
func (o *payout) queue(ctx context.Context) error {
	left := make([]int, len(o.rows))
	for i := range left {
		left[i] = i
	}
	since, delay := o.p.clock.Now(), time.Duration(0)
	for len(left) > 0 {
		batch := left[:o.batch(left)]
		again, err := o.send(ctx, batch)
		if err != nil {
			return err
		}
		left = append(again, left[len(batch):]...)
		if len(again) < len(batch) {
			since, delay = o.p.clock.Now(), 0
		}
		o.progress("%d of %d rows queued", len(o.rows)-len(left), len(o.rows))
		if len(again) == 0 {
			continue
		}
		if o.p.clock.Now().Sub(since) > fileOutage {
			return fmt.Errorf("no row accepted for %s: %s", fileOutage,
				o.result[again[0]].Message)
		}
		delay = min(max(2*delay, 100*time.Millisecond), 5*time.Second)
		if err := clock.Sleep(ctx, o.p.clock, delay); err != nil {
			return errInterrupted
		}
	}
	return nil
}

// batch returns how many of some rows fit into a call, at least one.
func (o *payout) batch(rows []int) int {
	bytes := 0
	for n, i := range rows[:min(batchRows, len(rows))] {
		if bytes += proto.Size(o.rows[i].request); bytes > batchBytes && n > 0 {
			return n
		}
	}
	return min(batchRows, len(rows))
}

// send sends one batch, and returns the rows to send again.
func (o *payout) send(ctx context.Context, batch []int) (again []int, err error) {
	ask := &pb.BatchCreateTxRequest{}
	for _, i := range batch {
		ask.Requests = append(ask.Requests, o.rows[i].request)
	}
	answer, err := call(ctx, o.c, o.c.txs.BatchCreateTx, ask)
	switch {
	case ctx.Err() != nil:
		return nil, errInterrupted
	case err != nil && retryable(status.Code(err)):
		for _, i := range batch {
			o.result[i].Message = err.Error()
		}
		return batch, nil
	case err != nil:
		return nil, err
	}
	for n, r := range answer.GetResults() {
		i := batch[n]
		at := &o.result[i]
		if e := r.GetError(); e != nil {
			failed := status.FromProto(e)
			at.Reason, at.Message = reasonOf(failed), failed.Message()
			if retryable(failed.Code()) {
				again = append(again, i)
			} else {
				at.refused = true
			}
			continue
		}
		at.created = r.GetCreated()
		o.know(at, r.GetTx())
	}
	return again, nil
}

func retryable(code codes.Code) bool {
	return code == codes.Unavailable || code == codes.ResourceExhausted ||
		code == codes.DeadlineExceeded || code == codes.Aborted
}

func (o *payout) know(at *rowResult, tx *pb.Tx) {
	o.update(at, &pb.TxEvent{TxId: tx.GetTxId(), State: tx.GetState(), SubState: tx.GetSubState(),
		Reason: tx.GetReason(), Message: tx.GetLastError(), Executed: tx.GetExecuted()})
}

func (o *payout) update(at *rowResult, e *pb.TxEvent) {
	at.TxID, at.State = e.GetTxId(), shownState(e.GetState(), e.GetSubState())
	at.Reason, at.Message = e.GetReason(), e.GetMessage()
	switch e.GetState() {
	case pb.TxState_TX_STATE_CONFIRMED, pb.TxState_TX_STATE_FAILED_FINAL,
		pb.TxState_TX_STATE_CANCELLED:
		at.final = true
	default:
		at.final = false // a reorg may revoke an outcome
	}
	at.succeeded = e.GetExecuted() == pb.Executed_EXECUTED_SUCCESS
}

// await follows all accepted rows until they are final, a hundred at a time.
func (o *payout) await(ctx context.Context) error {
	byID := map[string]*rowResult{}
	var open []string
	for i := range o.result {
		if at := &o.result[i]; at.TxID != "" {
			byID[at.TxID] = at
			if !at.final {
				open = append(open, at.TxID)
			}
		}
	}
	for ids := range slices.Chunk(open, watchedRows) {
		ask := &pb.WatchTxRequest{UntilFinal: true,
			Target: &pb.WatchTxRequest_Txs{Txs: &pb.TxIds{TxIds: ids}}}
		err := o.p.follow(ctx, o.c, ask, func(m *pb.WatchTxResponse) error {
			if tx := m.GetSnapshot(); tx != nil {
				o.know(byID[tx.GetTxId()], tx)
			}
			if e := m.GetEvent(); e != nil {
				o.update(byID[e.GetTxId()], e)
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
	s := summary{Rows: len(o.rows), Final: map[string]int{}, Failures: []rowResult{}}
	for i := range o.result {
		at := &o.result[i]
		switch {
		case at.TxID == "" && !at.refused: // not sent
		case at.refused:
			s.Refused++
		case at.created:
			s.Created++
		default:
			s.Existing++
		}
		switch {
		case at.TxID == "":
		case at.final:
			s.Final[at.State]++
		default:
			s.Open++
		}
		if at.refused || at.final && !at.succeeded {
			s.Failures = append(s.Failures, *at)
		}
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
	case len(s.Failures) > 0:
		return fmt.Errorf("%d of %d rows failed", len(s.Failures), s.Rows)
	}
	return nil
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
	if more := len(s.Failures) - shownRows; more > 0 {
		return line("and %d more; --json lists all", more)(w)
	}
	return nil
}
