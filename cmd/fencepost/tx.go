package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/txn"
)

func (p *program) txCommand() *cobra.Command {
	f := &clientFlags{}
	c := p.group("tx", "Create, watch and manage transactions",
		p.txCreateCommand(f), p.txSimulateCommand(f), p.txGetCommand(f), p.txListCommand(f),
		p.txWatchCommand(f), p.txSpeedUpCommand(f), p.txCancelCommand(f), p.txResolveCommand(f),
		p.txApproveCommand(f), p.txDenyCommand(f))
	f.add(c)
	return c
}

// createFlags are the request.
type createFlags struct {
	submitter, requestID, to, value, data string
	poolFlags
	gasLimit    uint64
	labels      []string
	watch, wait bool
	fromFile    string
	termsFlags
}

func (p *program) txCreateCommand(f *clientFlags) *cobra.Command {
	var t createFlags
	c := &cobra.Command{
		Use:   "create --submitter NAME|--pool NAME --to ADDRESS|--from-file FILE",
		Short: "Queue a transaction, or all of a file",
		Args:  arguments(),
		Long: `Queue a transaction. It is sent exactly once, however often the command is repeated
with the same --request-id. Without that flag a new request id is generated and printed.
With --pool the ledger chooses an account of the pool, also for each row of a file.

--watch prints every step until the transaction is final; --wait prints only the result. Both exit
with 1 unless it was executed successfully.

--from-file queues all rows of a CSV file (.csv), or of a file with one JSON object on each line
(.ndjson, .jsonl). The columns are id, to, value, data, gas_limit, submitter and label:KEY; only id
is required, and to or data. The id is the request id of its row. So repeating the command resumes
it, and sends no row twice. A file with a mistake is rejected as a whole, with line and column. It
may have up to 1,000,000 rows, which are read as they are sent; do not change it meanwhile.
With --wait the command follows all rows until they are final. It prints a summary.`,
		Example: "  fencepost tx create --submitter alice" +
			" --to 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed --value 0.1ether --watch\n" +
			"  fencepost tx create --submitter alice" +
			" --to 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed --data 0xd09de08a" +
			" --request-id order-4711\n" +
			"  fencepost tx create --submitter alice" +
			" --to 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed --speed fast --max-fee-gwei 80" +
			" --not-after 10m --cancel-late\n" +
			"  fencepost tx create --submitter alice --from-file payouts.csv --wait\n" +
			"  fencepost tx create --pool payouts" +
			" --to 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed --value 1ether --sticky-key u17",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if t.fromFile != "" {
			return p.createFromFile(cmd, f, t, args)
		}
		ask, err := t.request(cmd, p.clock.Now())
		if err != nil {
			return err
		}
		return p.calling(f,
			func(ctx context.Context, c *client, _ []string) error {
				return p.create(ctx, c, t,
					ask)
			})(
			cmd,
			args,
		)
	}
	t.addPayload(c)
	c.Flags().StringVar(&t.requestID, "request-id", "",
		"idempotency key of the request (default: a new UUID)")
	c.Flags().StringArrayVar(&t.labels, "label", nil, "label as key=value; repeatable")
	c.Flags().StringVar(&t.fromFile, "from-file", "",
		"file with a transaction on each row: .csv, .ndjson or .jsonl")
	t.termsFlags.add(c)
	c.Flags().BoolVar(&t.watch, "watch", false, "print each step until the transaction is final")
	c.Flags().BoolVar(&t.wait, "wait", false, "return when the transaction is final")
	return c
}

// addPayload adds the flags for the submitter and the payload.
func (t *createFlags) addPayload(c *cobra.Command) {
	c.Flags().StringVar(&t.submitter, "submitter", "",
		"sending account, by name or account id (this or --pool is required)")
	t.poolFlags.add(c)
	c.Flags().StringVar(&t.to, "to", "",
		"recipient; omit to create a contract from --data")
	c.Flags().StringVar(&t.value, "value", "0",
		"amount in wei, or with a unit (wei, gwei or ether), like 0.1ether")
	c.Flags().StringVar(&t.data, "data", "", "call data, as 0x and hex digits")
	c.Flags().Uint64Var(&t.gasLimit, "gas-limit", 0, "gas limit; 0: estimate")
}

// request builds the request. It rejects errors that do not need a node to be found.
func (t *createFlags) request(c *cobra.Command, now time.Time) (*pb.CreateTxRequest, error) {
	if err := t.account(c, t.submitter); err != nil {
		return nil, err
	}
	if t.watch && t.wait {
		return nil, misused(c, "--watch and --wait exclude each other; give one of them")
	}
	wei, err := parseAmount(t.value)
	if err != nil {
		return nil, misused(c, "--value %v", err)
	}
	data, err := parseData(t.data)
	if err != nil {
		return nil, misused(c, "--data %v", err)
	}
	terms, err := t.terms(c, now)
	if err != nil {
		return nil, err
	}
	if t.requestID == "" {
		t.requestID = uuid.NewString()
	}
	labels, err := parseLabels(t.labels)
	if err != nil {
		return nil, misused(c, "%v", err)
	}
	if err := t.recipient(c, data); err != nil {
		return nil, err
	}
	payload := &pb.Payload{To: t.to, Value: wei, Data: data, GasLimit: t.gasLimit}
	return &pb.CreateTxRequest{
		Submitter: t.submitter,
		Pool:      t.pool,
		StickyKey: t.stickyKey,
		RequestId: t.requestID,
		Payload:   payload,
		Terms:     terms,
		Labels:    labels,
	}, nil
}

func parseLabels(texts []string) (map[string]string, error) {
	var labels map[string]string
	for _, text := range texts {
		key, value, found := strings.Cut(text, "=")
		if _, twice := labels[key]; !found || twice {
			return nil, fmt.Errorf("--label %q: must be key=value, with a new key", text)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels, nil
}

// recipient rejects an invalid recipient, and a missing one unless a contract is created.
func (t *createFlags) recipient(c *cobra.Command, data []byte) error {
	if t.to == "" && len(data) == 0 {
		return misused(c,
			"--to is missing; omit it only to create a contract from --data")
	}
	if t.to == "" {
		return nil
	}
	if _, err := txn.ParseAddress(t.to); err != nil {
		return misused(c, "--to: %v", err)
	}
	return nil
}

func parseData(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	digits, ok := strings.CutPrefix(text, "0x")
	data, err := hex.DecodeString(digits)
	if !ok || err != nil {
		return nil, errors.New(
			"is not \"0x\" followed by an even number of hex digits; give bytes like 0xd09de08a")
	}
	return data, nil
}

func (p *program) create(ctx context.Context, c *client, t createFlags,
	ask *pb.CreateTxRequest) error {
	answer, err := call(ctx, c, c.txs.CreateTx, ask)
	if isUnsure(err) {
		again := "--request-id " + ask.GetRequestId()
		if at := shownDeadline(ask.GetTerms()); at != "" {
			again += " --not-after " + at
		}
		return fmt.Errorf(
			"%w; the transaction may be queued; repeat the command with %s (it cannot send twice)",
			err, again)
	}
	if err != nil {
		return err
	}
	if t.wait {
		if awaitsApproval(answer.GetTx()) {
			p.note("transaction %s awaits the approval of another caller; %s",
				answer.GetTx().GetTxId(), toApprove(answer.GetTx()))
		}
		return p.waitFor(ctx, c, answer.GetTx().GetTxId())
	}
	if !t.watch {
		return p.print(wire{answer}, createdLine(answer))
	}
	if p.json {
		err = p.printLine(answer)
	} else {
		err = createdLine(answer)(p.out)
	}
	if err != nil {
		return err
	}
	return p.watchOne(ctx, c, watchTx(answer.GetTx().GetTxId()), p.printStep)
}

func createdLine(answer *pb.CreateTxResponse) func(io.Writer) error {
	tx := answer.GetTx()
	verb, next := "queued", ""
	if awaitsApproval(tx) {
		verb, next = "awaits the approval of another caller", "; "+toApprove(tx)
	}
	if !answer.GetCreated() {
		verb = "already exists and is " + shownState(tx.GetState(), tx.GetSubState())
	}
	if at := shownDeadline(tx.GetTerms()); at != "" {
		verb += ", not after " + at
	}
	return line("transaction %s of %s %s; request_id %s%s", tx.GetTxId(), tx.GetSubmitter(), verb,
		tx.GetRequestId(), next)
}

func awaitsApproval(tx *pb.Tx) bool {
	return tx.GetSubState() == pb.TxSubState_TX_SUB_STATE_AWAITING_APPROVAL
}

// toApprove names the commands for a transaction that awaits an approval.
func toApprove(tx *pb.Tx) string {
	return fmt.Sprintf("see \"fencepost tx get %[1]s\", approve with \"fencepost tx approve "+
		"%[1]s\"", tx.GetTxId())
}

// requestFlags name a transaction by its request key.
type requestFlags struct{ submitter, pool, requestID string }

func (r *requestFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&r.submitter, "submitter", "",
		"sending account; with --request-id, instead of TX_ID or HASH")
	c.Flags().StringVar(&r.pool, "pool", "", "pool, in place of --submitter")
	c.Flags().StringVar(&r.requestID, "request-id", "", "idempotency key of the request")
}

func (p *program) txGetCommand(f *clientFlags) *cobra.Command {
	var r requestFlags
	c := &cobra.Command{
		Use:   "get [TX_ID|HASH]",
		Short: "Show a transaction, also by the hash of one of its attempts",
		Args:  cobra.ArbitraryArgs,
		Example: "  fencepost tx get 01a21fca-9bb7-8000-8000-058ead4b4abd\n" +
			"  fencepost tx get" +
			" 0x8a1b1d6e5f0c9b7a6d5e4f3c2b1a09f8e7d6c5b4a39281706f5e4d3c2b1a0f9e\n" +
			"  fencepost tx get --submitter alice --request-id order-4711\n" +
			"  fencepost tx get --pool payouts --request-id order-4711",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ask := &pb.GetTxRequest{View: pb.TxView_TX_VIEW_OPERATOR}
		switch key := r.key(); {
		case len(args) == 1 && key == nil:
			ask.Key = &pb.GetTxRequest_TxId{TxId: args[0]}
			if hash, is := hashIn(args[0]); is {
				ask.Key = &pb.GetTxRequest_Hash{Hash: hash}
			}
		case len(args) == 0 && r.oneAccount() && r.requestID != "":
			ask.Key = &pb.GetTxRequest_Request{Request: key}
		default:
			return misused(cmd, "give one of TX_ID, HASH, and --submitter or --pool "+
				"with --request-id")
		}
		return p.calling(f, func(ctx context.Context, c *client, _ []string) error {
			answer, err := call(ctx, c, c.txs.GetTx, ask)
			if err != nil {
				return err
			}
			return p.print(wire{answer.GetTx()}, fields(txFields(answer.GetTx())))
		})(cmd, args)
	}
	r.add(c)
	return c
}

// key is the request key in the flags; nil if there is none.
func (r *requestFlags) key() *pb.RequestKey {
	if r.submitter == "" && r.pool == "" && r.requestID == "" {
		return nil
	}
	return &pb.RequestKey{Submitter: r.submitter, Pool: r.pool, RequestId: r.requestID}
}

// oneAccount reports whether a submitter or a pool is given.
func (r *requestFlags) oneAccount() bool { return (r.submitter == "") != (r.pool == "") }

func (p *program) txListCommand(f *clientFlags) *cobra.Command {
	var submitter, pool string
	var states, labels []string
	var limit int
	var wide, awaiting bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List transactions, newest first",
		Args:  arguments(),
		Example: "  fencepost tx list --submitter alice --state TRACKING --state STUCK\n" +
			"  fencepost tx list --label order=4711\n" +
			"  fencepost tx list --pool payouts --state STUCK\n" +
			"  fencepost tx list --submitter alice --state QUEUED --wide\n" +
			"  fencepost tx list --awaiting-approval --wide",
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		in, err := parseStates(states)
		if err != nil {
			return err
		}
		ask := &pb.ListTxsRequest{Submitter: submitter, Pool: pool, States: in, Labels: labels,
			AwaitingApproval: awaiting}
		if limit < 1 {
			return misused(cmd, "--limit must be at least 1")
		}
		return p.calling(f,
			func(ctx context.Context, c *client, _ []string) error {
				return p.listTxs(ctx, c, ask,
					limit, wide)
			})(
			cmd,
			args,
		)
	}
	c.Flags().StringVar(&submitter, "submitter", "", "only this submitter")
	c.Flags().StringVar(&pool, "pool", "", "only transactions created with this pool")
	c.Flags().StringArrayVar(&labels, "label", nil,
		"only transactions with this key=value label; repeatable")
	c.Flags().StringSliceVar(&states, "state", nil,
		"only this state: "+strings.Join(stateNames(), ", ")+"; repeatable")
	c.Flags().BoolVar(&awaiting, "awaiting-approval", false,
		"only transactions that await the approval of another caller")
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of transactions")
	c.Flags().BoolVar(&wide, "wide", false, "also show recipient, value in wei and data")
	return c
}

func parseStates(names []string) (states []pb.TxState, err error) {
	for _, name := range names {
		state, ok := pb.TxState_value["TX_STATE_"+strings.ToUpper(name)]
		if !ok || state == 0 {
			return nil, usageError{
				fmt.Sprintf("unknown state %q; the states are %s", name,
					strings.Join(stateNames(), ", ")),
			}
		}
		states = append(states, pb.TxState(state))
	}
	return states, nil
}

func stateNames() (names []string) {
	for number := 1; number < len(pb.TxState_name); number++ {
		names = append(names, shownState(pb.TxState(number), 0))
	}
	return names
}

const maxPage = 1000

func (p *program) listTxs(ctx context.Context, c *client, ask *pb.ListTxsRequest, limit int,
	wide bool) error {
	all := &pb.ListTxsResponse{}
	for len(all.GetTxs()) == 0 || all.GetNextPageToken() != "" && len(all.GetTxs()) < limit {
		ask.PageSize, ask.PageToken = int32(
			min(limit-len(all.GetTxs()), maxPage)), all.GetNextPageToken()
		page, err := call(ctx, c, c.txs.ListTxs, ask)
		if err != nil {
			return err
		}
		all.Txs, all.NextPageToken = append(all.Txs, page.GetTxs()...), page.GetNextPageToken()
		if len(page.GetTxs()) == 0 {
			break
		}
	}
	if all.GetNextPageToken() != "" && !p.json {
		p.note("more than %d transactions; raise --limit", limit)
	}
	rows := make([][]string, len(all.GetTxs()))
	for i, tx := range all.GetTxs() {
		rows[i] = []string{
			tx.GetTxId(),
			tx.GetSubmitter(),
			tx.GetRequestId(),
			shownState(tx.GetState(), tx.GetSubState()),
			shown(tx.GetReason()),
			shownTime(tx.GetUpdateTime()),
			shown(tx.GetTxHash()),
		}
	}
	columns := []string{"TX_ID", "SUBMITTER", "REQUEST_ID", "STATE", "REASON", "UPDATED", "TX_HASH"}
	if wide {
		columns = append(columns, "TO", "VALUE", "DATA")
		for i, tx := range all.GetTxs() {
			to, data := shownPayload(tx.GetPayload())
			rows[i] = append(rows[i], to, tx.GetPayload().GetValue(), shown(data))
		}
	}
	return p.print(wire{all}, table(columns, rows))
}
