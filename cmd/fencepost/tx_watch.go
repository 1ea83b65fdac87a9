package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	fencepost "github.com/fencepost/fencepost/clients/go"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

var errInterrupted = errors.New("interrupted; the transaction is not affected")

func (p *program) txWatchCommand(f *clientFlags) *cobra.Command {
	var r requestFlags
	var all bool
	var labels, states []string
	c := &cobra.Command{
		Use:   "watch [TX_ID|HASH...]",
		Short: "Print every step of transactions",
		Args:  cobra.ArbitraryArgs,
		Long: `Print every step of a transaction until it is final. Name it by TX_ID, by the
HASH of one of its attempts, or by --submitter or --pool and --request-id. The exit code is 0 if
it was executed successfully, else 1.

With several TX_IDs or HASHes (at most 100), print each transaction as it is, then every step
until all are final. The exit code is 0 if all were executed successfully.

With --submitter or --pool alone, or --all, print the transactions that are not final, then every
step, until interrupted. --label selects transactions by label, --state by the state after the step;
--state STUCK,FAILED_FINAL shows those that need attention.

A lost stream is resumed if a node is back within five minutes. --timeout does not apply.`,
		Example: "  fencepost tx watch 01a21fca-9bb7-8000-8000-058ead4b4abd\n" +
			"  fencepost tx watch $(cat ids)\n" +
			"  fencepost tx watch --submitter alice\n" +
			"  fencepost tx watch --all --label order=4711\n" +
			"  fencepost tx watch --all --state STUCK,FAILED_FINAL",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ask := &pb.WatchTxRequest{UntilFinal: true}
		switch key := r.key(); {
		case len(args) == 1 && key == nil && !all:
			ask = watchTx(args[0])
		case len(args) > 1 && key == nil && !all:
			ask.Target = &pb.WatchTxRequest_Txs{Txs: &pb.TxIds{}}
		case len(args) == 0 && r.oneAccount() && r.requestID != "" && !all:
			ask.Target = &pb.WatchTxRequest_Request{Request: key}
		case len(args) == 0 && r.oneAccount() && r.pool != "" && r.requestID == "" && !all:
			ask = &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Pool{Pool: r.pool}}
		case len(args) == 0 && r.oneAccount() && r.requestID == "" && !all:
			ask = &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: r.submitter}}
		case len(args) == 0 && key == nil && all:
			ask = &pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}}}
		default:
			return misused(cmd,
				"give one of TX_ID..., HASH..., --submitter or --pool (with --request-id for "+
					"one transaction) and --all")
		}
		in, err := parseStates(states)
		switch {
		case err != nil:
			return err
		case len(in) > 0 && ask.GetUntilFinal():
			return misused(cmd,
				"--state needs --all, or --submitter or --pool without --request-id")
		}
		ask.Labels, ask.States = labels, in
		return p.calling(f, func(ctx context.Context, c *client, args []string) error {
			ids, err := c.ids(ctx, args)
			if err != nil {
				return err
			}
			switch target := ask.GetTarget().(type) {
			case *pb.WatchTxRequest_TxId:
				target.TxId = ids[0]
			case *pb.WatchTxRequest_Txs:
				target.Txs.TxIds = ids
			}
			if ask.GetTxs() != nil {
				return p.watchSeveral(ctx, c, ask)
			}
			if ask.GetUntilFinal() {
				return p.watchOne(ctx, c, ask, p.printStep)
			}
			return p.watchMany(ctx, c, ask)
		})(cmd, args)
	}
	r.add(c)
	c.Flags().BoolVar(&all, "all", false, "watch all submitters")
	c.Flags().StringArrayVar(&labels, "label", nil,
		"only transactions with this key=value label; repeatable")
	c.Flags().StringSliceVar(&states, "state", nil,
		"only steps to this state: "+strings.Join(stateNames(), ", ")+"; repeatable")
	return c
}

// ids are the transactions that arguments name by id or by hash.
func (c *client) ids(ctx context.Context, args []string) ([]string, error) {
	ids := slices.Clone(args)
	for i, arg := range args {
		hash, is := hashIn(arg)
		if !is {
			continue
		}
		answer, err := call(ctx, c, c.txs.GetTx,
			&pb.GetTxRequest{Key: &pb.GetTxRequest_Hash{Hash: hash}})
		if err != nil {
			return nil, err
		}
		ids[i] = answer.GetTx().GetTxId()
	}
	return ids, nil
}

func watchTx(id string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: id}, UntilFinal: true}
}

// watchOne follows a transaction until it is final. It fails unless the transaction succeeded.
func (p *program) watchOne(ctx context.Context, c *client, ask *pb.WatchTxRequest,
	show func(*pb.WatchTxResponse) error) error {
	var last *pb.TxEvent
	err := p.follow(ctx, c, ask, func(m *pb.WatchTxResponse) error {
		if m.GetEvent() != nil {
			last = m.GetEvent()
		}
		return show(m)
	})
	if err != nil {
		return err
	}
	return verdict(last)
}

// watchSeveral follows transactions until all are final. It fails unless all succeeded.
func (p *program) watchSeveral(ctx context.Context, c *client, ask *pb.WatchTxRequest) error {
	last := map[string]*pb.TxEvent{}
	err := p.follow(ctx, c, ask, func(m *pb.WatchTxResponse) error {
		if tx := m.GetSnapshot(); tx != nil {
			last[tx.GetTxId()] = &pb.TxEvent{
				TxId:     tx.GetTxId(),
				Executed: tx.GetExecuted(),
				Reason:   tx.GetReason(),
				Message:  tx.GetLastError(),
			}
		}
		if e := m.GetEvent(); e != nil {
			last[e.GetTxId()] = e
		}
		return p.printStep(m)
	})
	if err != nil {
		return err
	}
	var bad []string
	for _, id := range slices.Sorted(maps.Keys(last)) {
		if err := verdict(last[id]); err != nil {
			bad = append(bad, err.Error())
		}
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, "; "))
	}
	return nil
}

// verdict is an error unless the transaction was executed successfully.
func verdict(last *pb.TxEvent) error {
	if last.GetExecuted() == pb.Executed_EXECUTED_SUCCESS {
		return nil
	}
	text := fmt.Sprintf("transaction %s was not executed", last.GetTxId())
	switch last.GetExecuted() {
	case pb.Executed_EXECUTED_REVERTED:
		text = fmt.Sprintf("transaction %s was executed and reverted", last.GetTxId())
	case pb.Executed_EXECUTED_UNKNOWN:
		text = fmt.Sprintf("unknown whether transaction %s was executed", last.GetTxId())
	}
	if last.GetMessage() != "" {
		text += ": " + last.GetMessage()
	}
	if last.GetReason() != "" {
		text += " (" + last.GetReason() + ")"
	}
	return errors.New(text)
}

// watchMany follows transactions until it is interrupted, which is not an error.
func (p *program) watchMany(ctx context.Context, c *client, ask *pb.WatchTxRequest) error {
	err := p.follow(ctx, c, ask, p.printStep)
	if errors.Is(err, errInterrupted) {
		return nil
	}
	return err
}

// waitFor prints a transaction when it is final.
func (p *program) waitFor(ctx context.Context, c *client, id string) error {
	verdict := p.watchOne(ctx, c, watchTx(id), func(*pb.WatchTxResponse) error { return nil })
	answer, err := call(ctx, c, c.txs.GetTx,
		&pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: id}, View: pb.TxView_TX_VIEW_OPERATOR})
	if err != nil {
		return errors.Join(verdict, err)
	}
	return errors.Join(p.print(wire{answer.GetTx()}, fields(txFields(answer.GetTx()))), verdict)
}

// follow delivers the messages of a watch until it ends. The client library resumes streams that
// break.
func (p *program) follow(ctx context.Context, c *client, ask *pb.WatchTxRequest,
	show func(*pb.WatchTxResponse) error) error {
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	o := &streamObserver{stop: stop, note: func(err error) {
		if ctx.Err() == nil {
			p.note("watch stream lost, resuming: %v", c.explain(err))
		}
	}}
	options := p.watchOptions
	options.Dial = append(slices.Clone(c.dial), grpc.WithChainStreamInterceptor(o.intercept))
	lib, err := fencepost.Connect(c.server, options)
	if err != nil {
		return err
	}
	defer lib.Close()
	for m, err := range lib.Watch(watching, ask) {
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case err != nil:
			return c.explain(err)
		}
		if err := show(m); err != nil {
			return err
		}
	}
	return nil
}

// streamObserver reports the first error of each loss of the stream. It stops the watch if the
// first stream fails with an error that is not from a node: the address is probably wrong, and a
// person should know at once, while the client of a program would retry.
type streamObserver struct {
	stop  context.CancelCauseFunc
	note  func(error)
	heard bool // a message since the start
	noted bool // since the last message
}

func (o *streamObserver) intercept(ctx context.Context, desc *grpc.StreamDesc,
	cc *grpc.ClientConn, method string, streamer grpc.Streamer,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		o.lost(ctx, err)
		return nil, err
	}
	return &observedStream{stream, o}, nil
}

type observedStream struct {
	grpc.ClientStream
	observer *streamObserver
}

// RecvMsg receives a message.
func (s *observedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == nil:
		s.observer.heard, s.observer.noted = true, false
	case !errors.Is(err, io.EOF):
		s.observer.lost(s.Context(), err)
	}
	return err
}

func (o *streamObserver) lost(ctx context.Context, err error) {
	if cause := context.Cause(ctx); cause != nil && fencepost.ErrorOf(cause).Resumable() {
		err = cause // the library ended a silent stream
	}
	e := fencepost.ErrorOf(err)
	switch {
	case !o.heard && e.ReasonName == "" && e.Code != codes.Unavailable:
		o.stop(err)
	case e.Resumable() && !o.noted:
		o.noted = true
		o.note(err)
	}
}

// printStep prints a message of a watch on one line. Of heartbeats it notes only ledgers that do
// not respond.
func (p *program) printStep(m *pb.WatchTxResponse) error {
	if beat := m.GetHeartbeat(); beat != nil {
		missing := strings.Join(beat.GetMissingLedgers(), ", ")
		switch {
		case missing == p.missing:
		case missing == "":
			p.note("all ledgers respond again")
		default:
			p.note("the watch is incomplete: no response from %s", missing)
		}
		p.missing = missing
		return nil
	}
	if p.json {
		return p.printLine(m)
	}
	if tx := m.GetSnapshot(); tx != nil {
		return step(p.out, shownTime(tx.GetUpdateTime()), tx.GetVersion(), "(current)",
			shownState(tx.GetState(), tx.GetSubState()), tx.GetTxId(), tx.GetSubmitter(),
			tx.GetReason())
	}
	e := m.GetEvent()
	return step(
		p.out,
		shownTime(e.GetTime()),
		e.GetSeq(),
		strings.TrimPrefix(e.GetKind().String(), "TX_EVENT_KIND_"),
		shownState(e.GetState(), e.GetSubState()),
		e.GetTxId(),
		e.GetSubmitter(),
		stepDetails(e)...)
}

// stepDetails follow the columns. For a CONFIRMATIONS event these are the blocks.
func stepDetails(e *pb.TxEvent) []string {
	if e.GetKind() == pb.TxEventKind_TX_EVENT_KIND_CONFIRMATIONS {
		fork := ""
		if e.GetNewFork() {
			fork = "new fork"
		}
		return []string{fork, shownBlocks(e.GetConfirmations())}
	}
	details := []string{e.GetReason(), e.GetMessage()}
	if r := e.GetReceipt(); r != nil {
		details = append(details, fmt.Sprintf("block %d", r.GetBlockNumber()))
		if r.GetKind() == "CANCEL" {
			details = append(details, "(cancel transaction)")
		}
	}
	return append(details, e.GetTxHash())
}

// step prints columns of fixed widths, because later rows are not known yet.
func step(w io.Writer, when string, seq uint64, kind, state, id, submitter string,
	details ...string) error {
	present := []string{}
	for _, d := range details {
		if d != "" {
			present = append(present, d)
		}
	}
	text := fmt.Sprintf("%s  %s  %s  %2d  %-16s  %-19s  %s", when, id, submitter, seq, kind, state,
		strings.Join(present, "  "))
	return line("%s", strings.TrimRight(text, " "))(w)
}
