package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// moments select the broadcasts that a fault applies to.
var moments = []string{"first send", "resend", "bump", "cancel"}

type sendFault struct {
	name string
	chaintest.Fault
}

func falseReply(class txn.Class) chaintest.Fault {
	return chaintest.Fault{Reply: &txn.Outcome{Class: class}}
}

func rejected(class txn.Class, after time.Duration) chaintest.Fault {
	return chaintest.Fault{Lost: true, Reply: &txn.Outcome{Class: class, RetryAfter: after}}
}

// sendFaults are the faults of a broadcast: a lost request, a lost reply, or a false reply.
var sendFaults = []sendFault{
	{"request lost", chaintest.LoseRequest()},
	{"reply lost", chaintest.LoseReply()},
	{"chain unavailable", chaintest.Unavailable()},
	{"accepted and dropped", chaintest.Swallow()},
	{"accepted and evicted", chaintest.Evict()},
	{"other hash returned", rejected(txn.Ambiguous, 0)},
	{"false already known", chaintest.Say("already known")},
	{"false nonce too low", chaintest.FalseNonceTooLow()},
	{"false nonce too high", chaintest.Say("nonce too high")},
	{"pool full", chaintest.Say("txpool is full")},
	{"underpriced", chaintest.Say("transaction underpriced")},
	{"replacement underpriced", chaintest.Say("replacement transaction underpriced")},
	{"fee cap below the base fee", chaintest.Say("max fee per gas less than block base fee")},
	{"type not supported", chaintest.Say("only legacy transactions are supported")},
	{"no funds", chaintest.Say("insufficient funds for gas * price + value")},
	{"too many requests", rejected(txn.RateLimited, 20*time.Millisecond)},
	{"not authorised", rejected(txn.Unauthorized, 0)},
	{"wrong chain", rejected(txn.WrongChain, 0)},
	{"false invalid", rejected(txn.Invalid, 0)},
	{"unknown message", chaintest.Say("the hamster has left the wheel")},
	{"accepted, reported as nonce too low", falseReply(txn.NonceTooLow)},
	{"accepted, reported as invalid", falseReply(txn.Invalid)},
	{"accepted, reported as underpriced", falseReply(txn.ReplacementUnderpriced)},
}

const faultyTimes = 3

// matrixCell is one fault at one moment, on its own account.
type matrixCell struct {
	fault  sendFault
	moment string
	i      int // account
	id     txn.TxID
	behind txn.TxID

	mu       sync.Mutex
	attempts []txn.Hash
	sends    int // of the first attempt
	hits     int
	evict    txn.Hash

	replaced bool // the attempt may be replaced before it had all its faults
}

// attempt is the number of the attempt that the fault applies to.
func (c *matrixCell) attempt() int {
	if c.moment == "first send" || c.moment == "resend" {
		return 1
	}
	return 2
}

// faultFor returns the fault of a broadcast of the transaction.
func (c *matrixCell) faultFor(hash txn.Hash) chaintest.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	no := 0
	for i, h := range c.attempts {
		if h == hash {
			no = i + 1
		}
	}
	if no == 0 {
		c.attempts = append(c.attempts, hash)
		no = len(c.attempts)
	}
	if no == 1 {
		c.sends++
	}
	due := no == c.attempt() && (c.moment != "resend" || c.sends > 1) ||
		no > 2 && c.moment == "cancel" // a cancel is bumped
	if !due || c.hits == faultyTimes {
		return chaintest.Fault{}
	}
	if c.hits++; c.moment == "resend" && c.hits == 1 {
		c.evict = hash // so that the rebroadcast matters
	}
	return c.fault.Fault
}

// endsTransaction reports whether the fault is believed from any node: no node has accepted the
// transaction, and it is called invalid.
func (c *matrixCell) endsTransaction() bool {
	return c.moment == "first send" && c.fault.Reply != nil && c.fault.Reply.Class == txn.Invalid
}

// refused reports whether the fault asks for other fees or another type, so that the attempt is
// replaced unless a node has accepted it.
func (c *matrixCell) refused() bool {
	return c.fault.Reply != nil && slices.Contains([]txn.Class{txn.Underpriced,
		txn.FeeCapBelowBaseFee, txn.TypeNotSupported}, c.fault.Reply.Class)
}

func (c *matrixCell) over() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := (c.endsTransaction() || c.replaced || c.refused()) && len(c.attempts) > c.attempt()
	if c.hits < faultyTimes && !gone {
		return fmt.Errorf("%s at the %s: %d faults", c.fault.name, c.moment, c.hits)
	}
	return nil
}

type matrix struct {
	*cluster
	cells   []*matrixCell
	of      map[txn.Address]*matrixCell
	counter txn.Address
}

// Bump replaces only cells of that moment, once.
func (m *matrix) Bump(_ time.Time, tx *txn.Tx, _ *txn.Attempt, n int) bool {
	return *tx.Nonce == 0 && n == 0 && m.cells[m.index(tx.Submitter)].moment == "bump"
}

func (m *matrix) index(id txn.SubmitterID) int {
	for i, s := range m.submitters {
		if s == id {
			return i
		}
	}
	return 0
}

func (m *matrix) intercept(_ context.Context, call chaintest.Call) chaintest.Fault {
	tx := new(types.Transaction)
	if call.Method != chaintest.MethodSend || tx.UnmarshalBinary(call.Signed.Raw) != nil ||
		tx.Nonce() != 0 {
		return chaintest.Fault{}
	}
	from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx)
	cell := m.of[from]
	if err != nil || cell == nil {
		return chaintest.Fault{}
	}
	fault := cell.faultFor(call.Signed.Hash)
	if cell.evict != (txn.Hash{}) {
		m.chain.Evict(cell.evict)
		cell.evict = txn.Hash{}
	}
	return fault
}

// TestFaultMatrix injects each fault of a broadcast at each moment, three times in a row. Then
// every transaction becomes final, executes at most once, and blocks no other. With -v it prints
// all outcomes.
func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	runMatrix(t, false, func(m *matrix) txn.BumpPolicy { return m })
}

// TestFaultMatrix_Bumping uses the default policy, which replaces any waiting transaction.
func TestFaultMatrix_Bumping(t *testing.T) {
	t.Parallel()
	runMatrix(t, true, func(*matrix) txn.BumpPolicy {
		return txn.DefaultBumpPolicy{Enabled: true, MinInterval: 2 * time.Second, MaxAttempts: 20}
	})
}

func runMatrix(t *testing.T, replaced bool, policy func(*matrix) txn.BumpPolicy) {
	t.Helper()
	m := &matrix{
		cluster: newCluster(t, len(sendFaults)*len(moments), 10*time.Second),
		of:      map[txn.Address]*matrixCell{},
		counter: txn.Address{0xc0},
	}
	m.chain.Register(m.counter, chaintest.Counter)
	for _, fault := range sendFaults {
		for _, moment := range moments {
			cell := &matrixCell{fault: fault, moment: moment, i: len(m.cells), replaced: replaced}
			m.cells, m.of[chaintest.Address(cell.i)] = append(m.cells, cell), cell
		}
	}
	m.policy = quick
	m.policy.Bump, m.policy.ResubmitMax = policy(m), 5
	m.chain.Intercept(m.intercept)
	m.start("a", func(o *Options) { o.PollInterval = 100 * time.Millisecond })
	m.together(len(m.cells), m.ask)
	m.eventually("the faults are over", func() error {
		m.chain.MineEmpty(1)
		for _, c := range m.cells {
			if err := c.over(); err != nil {
				return err
			}
		}
		return nil
	})
	m.eventually("all are final", func() error {
		m.chain.Mine(1)
		if n := m.openTransactions(); n > 0 {
			return fmt.Errorf("%d are not", n)
		}
		return nil
	})
	m.table()
}

// ask creates the transactions of a cell, and cancels if that is its moment.
func (m *matrix) ask(i int) error {
	c := m.cells[i]
	for n, id := range []*txn.TxID{&c.id, &c.behind} {
		tx, _, err := m.admin.CreateTx(
			m.t.Context(),
			store.Intent{
				Submitter: m.submitters[i],
				RequestID: fmt.Sprint(n),
				Payload:   txn.Payload{To: &m.counter},
			},
		)
		if err != nil {
			return err
		}
		*id = tx.ID
	}
	if c.moment != "cancel" {
		return nil
	}
	m.harness.await(c.id, "it is sent", func(tx txn.Tx) bool { return tx.State == txn.Tracking })
	_, err := m.admin.AddCommand(m.t.Context(), m.submitters[i],
		store.Ask{Kind: txn.CommandCancel, Tx: &c.id})
	return err
}

func (m *matrix) table() {
	m.t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "fault, %d times in a row, then none\t%s\n", faultyTimes,
		strings.Join(moments, "\t"))
	for i, c := range m.cells {
		if i%len(moments) == 0 {
			fmt.Fprint(w, c.fault.name)
		}
		end, err := m.verify(c)
		if err != nil {
			m.t.Errorf("%s at the %s: %v", c.fault.name, c.moment, err)
			end = "WRONG"
		}
		fmt.Fprintf(w, "\t%s", end)
		if i%len(moments) == len(moments)-1 {
			fmt.Fprintln(w)
		}
	}
	_ = w.Flush()
	m.t.Logf("\n%s", text.String())
}

// verify compares the outcome of a cell with the chain.
func (m *matrix) verify(c *matrixCell) (string, error) {
	tx, err := m.admin.Tx(m.t.Context(), c.id)
	if err != nil {
		return "", err
	}
	behind, err := m.admin.Tx(m.t.Context(), c.behind)
	if err != nil {
		return "", err
	}
	executed := uint64(1) // the second transaction
	if tx.State == txn.Confirmed {
		executed++
	}
	info, err := m.admin.Submitter(m.t.Context(), m.submitters[c.i])
	if err != nil {
		return "", err
	}
	account, err := m.chain.Account(m.t.Context(), chaintest.Address(c.i), 0)
	if err != nil {
		return "", err
	}
	times := m.chain.Stored(m.counter, chaintest.Address(c.i).Hex())
	switch {
	case tx.State == txn.Failed && tx.Executed == txn.No && tx.Reason == txn.ReasonRejected &&
		c.endsTransaction():
	case tx.State != txn.Confirmed && (c.moment != "cancel" || tx.State != txn.Cancelled):
		err = fmt.Errorf("final as %s: %s %s", tx.State, tx.Reason, tx.LastError)
	case behind.State != txn.Confirmed || *tx.Nonce != 0 || *behind.Nonce != 1 ||
		account.Latest != 2:
		err = fmt.Errorf(
			"nonces %d and %d, the second is %s, next nonce on chain %d", *tx.Nonce,
			*behind.Nonce, behind.State, account.Latest)
	case times != executed:
		err = fmt.Errorf("payloads executed %d times, want %d", times, executed)
	case info.Cursor.Protected != nil:
		err = errors.New("protected: " + info.Cursor.Protected.Evidence)
	case (c.moment == "bump" || c.moment == "cancel") && len(c.attempts) < 2:
		err = errors.New("only one attempt")
	}
	return fmt.Sprintf("%s, executed %d×", tx.State, times-1), err
}
