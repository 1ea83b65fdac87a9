package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/dbtest"
	"github.com/fencepost/fencepost/server/feed"
	"github.com/fencepost/fencepost/server/status"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Main(m)) }

// testTimeout bounds the wait for a condition; only failing tests wait that long.
const testTimeout = time.Minute

// leaseDuration outlives any test: no lease is renewed.
const leaseDuration = 10 * time.Minute

const (
	chainID   = 31337
	recipient = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" // an example of EIP-55
)

// harness is a ledger on a real PostgreSQL, and the store of one node.
type harness struct {
	t     testing.TB
	ctx   context.Context
	db    *dbtest.DB
	store *store.Store
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	h := &harness{t: t, ctx: ctx, db: dbtest.New(t)}
	h.store = h.open("a")
	return h
}

// open opens the store of another node.
func (h *harness) open(node string) *store.Store {
	h.t.Helper()
	return h.openAs(h.db.NodeURL, node)
}

// recover runs the recovery of "fencepost recover", with the role of the owner.
func (h *harness) recover() {
	h.t.Helper()
	_, err := h.openAs(h.db.URL, "owner").Recover(h.ctx)
	h.must(err)
}

func (h *harness) openAs(url, node string) *store.Store {
	h.t.Helper()
	s, err := store.Open(h.ctx, store.Config{
		URL:           url,
		Schema:        h.db.Schema,
		Node:          node + "/boot",
		LeaseDuration: leaseDuration,
	})
	h.must(err)
	h.t.Cleanup(s.Close)
	return s
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// count returns the number of rows; from is the part of the query after FROM.
func (h *harness) count(from string) (n int) {
	h.t.Helper()
	h.must(h.db.Pool.QueryRow(h.ctx, "SELECT count(*) FROM "+from).Scan(&n))
	return n
}

// eventually waits until a condition holds.
func (h *harness) eventually(condition string, holds func() bool) {
	h.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(testTimeout)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			h.t.Fatalf("not within %v: %s", testTimeout, condition)
		}
	}
}

// node is a server on its own port, with clients.
type node struct {
	*harness
	server *Server
	conn   *grpc.ClientConn
	txs    pb.TxServiceClient
	subs   pb.SubmitterServiceClient
	status pb.StatusServiceClient
	stop   context.CancelFunc // starts to drain
	served chan error
}

// serve starts a node with the store of the harness, unless a tweak replaces it.
func (h *harness) serve(tweaks ...func(*Options)) *node {
	h.t.Helper()
	o := Options{
		Store:  h.store,
		Limits: Limits{CommandPoll: 5 * time.Millisecond, FeedPoll: 20 * time.Millisecond},
	}
	for _, tweak := range tweaks {
		tweak(&o)
	}
	if s, ok := o.Store.(*store.Store); ok {
		o.Tail = s.TailFeed()
	}
	s, err := New(o)
	h.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	h.must(err)
	ctx, stop := context.WithCancel(context.Background())
	n := &node{harness: h, server: s, stop: stop, served: make(chan error, 1)}
	go func() { n.served <- s.Serve(ctx, listener) }()
	h.t.Cleanup(func() {
		stop()
		if err := <-n.served; err != nil {
			h.t.Errorf("serve: %v", err)
		}
	})
	n.dial(listener.Addr().String())
	return n
}

func (n *node) dial(address string, options ...grpc.DialOption) {
	n.t.Helper()
	conn, err := grpc.NewClient(
		address,
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	n.must(err)
	n.t.Cleanup(func() { conn.Close() })
	n.conn = conn
	n.txs = pb.NewTxServiceClient(conn)
	n.subs = pb.NewSubmitterServiceClient(conn)
	n.status = pb.NewStatusServiceClient(conn)
}

func limits(change func(*Limits)) func(*Options) { return func(o *Options) { change(&o.Limits) } }

// register registers a submitter, whose address is derived from its name.
func (h *harness) register(name string) txn.SubmitterID {
	h.t.Helper()
	var a txn.Address
	copy(a[:], name)
	info, _, err := h.store.Register(h.ctx, store.Registration{
		Name:      name,
		Chain:     chainID,
		Address:   a,
		Signer:    "local",
		Mode:      txn.Strict,
		StartFrom: "0",
	})
	h.must(err)
	return info.ID
}

func payload() *pb.Payload { return &pb.Payload{To: recipient, Value: "1"} }

func (n *node) create(submitter, request string) *pb.Tx {
	n.t.Helper()
	r, err := n.txs.CreateTx(n.ctx,
		&pb.CreateTxRequest{Submitter: submitter, RequestId: request, Payload: payload()})
	n.must(err)
	return r.GetTx()
}

func (n *node) watch(ask *pb.WatchTxRequest) pb.TxService_WatchTxClient {
	n.t.Helper()
	stream, err := n.txs.WatchTx(n.ctx, ask)
	n.must(err)
	return stream
}

// owner holds the lease of a submitter and moves its transactions, as an engine would.
type owner struct {
	*harness
	store     *store.Store
	id        txn.SubmitterID
	lease     *store.Lease
	next      txn.Nonce
	lastError string // in every event
}

func (h *harness) own(id txn.SubmitterID) *owner {
	h.t.Helper()
	lease, err := h.store.AcquireOne(h.ctx, id)
	h.must(err)
	o := &owner{harness: h, store: h.store, id: id, lease: lease}
	o.commit(txn.Change{Init: &txn.CursorInit{Block: 1, BlockHash: txn.Hash{1}}})
	return o
}

func (o *owner) commit(c txn.Change) {
	if outcome, err := o.store.Commit(o.lease, c); outcome != store.Done {
		panic(fmt.Sprintf("commit: %v, %v", outcome, err)) // not Fatal: owners run beside the test
	}
}

func (o *owner) read(id txn.TxID) txn.Tx {
	info, err := o.store.Tx(o.ctx, id)
	if err != nil {
		panic(err)
	}
	return info.Tx
}

// move applies one move to the current state of a transaction.
func (o *owner) move(id txn.TxID, kind txn.Kind, to txn.State, more func(*txn.Status)) {
	tx := o.read(id)
	c := txn.Change{}
	w := txn.Write{Tx: id, Version: tx.Version, From: tx.State, Kind: kind, Next: tx.Status}
	w.Next.State, w.Next.Version = to, tx.Version+1
	if kind == txn.EventAllocated {
		nonce := o.next
		o.next++
		w.Attempt = attempt(tx, nonce)
		if w.Attempt.No += tx.Requeued; tx.Requeued > 0 {
			w.Attempt.Hash[31] ^= byte(tx.Requeued)
		}
		w.Next.Sub, w.Next.Nonce = txn.None, &nonce
		w.Next.TxHash = w.Attempt.Hash
		c.Take = &txn.Take{Nonce: nonce}
	}
	w.Next.LastError = o.lastError
	if more != nil {
		more(&w.Next)
	}
	c.Writes = []txn.Write{w}
	o.commit(c)
}

func attempt(tx txn.Tx, nonce txn.Nonce) *txn.Attempt {
	a := &txn.Attempt{
		No:       1,
		Kind:     txn.Original,
		Nonce:    nonce,
		GasLimit: 21000,
		Hash:     txn.Hash(txn.Payload{Data: tx.ID[:]}.Hash()),
	}
	a.Raw = binary.BigEndian.AppendUint64(a.Hash.Bytes(), uint64(nonce))
	a.Fees.Cap.SetUint64(2_000_000_000)
	a.Fees.Tip.SetUint64(1_000_000_000)
	return a
}

func (o *owner) allocate(id txn.TxID) { o.move(id, txn.EventAllocated, txn.Allocated, nil) }

func (o *owner) submit(id txn.TxID) {
	o.move(id, txn.EventSubmitted, txn.Tracking,
		func(s *txn.Status) { s.Sub, s.SubmitAttempts = txn.Pending, 1 })
}

func (o *owner) include(id txn.TxID) {
	o.move(id, txn.EventIncluded, txn.Tracking, func(s *txn.Status) {
		s.Sub, s.Released = txn.Included, true
		s.Receipt = &txn.Receipt{
			TxHash:      s.TxHash,
			BlockNumber: 9,
			BlockHash:   txn.Hash{9},
			Success:     true,
			GasUsed:     21000,
		}
		s.Receipt.EffectiveGasPrice.SetUint64(1_500_000_000)
	})
}

func (o *owner) confirm(id txn.TxID) {
	o.move(id, txn.EventConfirmed, txn.Confirmed,
		func(s *txn.Status) { s.Sub, s.Executed = txn.None, txn.Success })
}

// finalize takes a queued transaction to CONFIRMED: five events with QUEUED.
func (o *owner) finalize(id txn.TxID) {
	for _, step := range []func(txn.TxID){o.allocate, o.submit, o.include, o.confirm} {
		step(id)
	}
}

// work applies commands and finalizes queued transactions in order, until ctx ends.
func (o *owner) work(ctx context.Context) {
	for ctx.Err() == nil {
		inboxes, err := o.store.Inboxes(o.ctx, []txn.SubmitterID{o.id}, 1)
		if err != nil {
			panic(err)
		}
		inbox := inboxes[o.id]
		for _, c := range inbox.Commands {
			o.apply(c)
		}
		if len(inbox.Commands) == 0 && len(inbox.Queue) > 0 {
			o.finalize(inbox.Queue[0].ID)
		}
	}
}

func (o *owner) apply(c txn.Command) {
	change := txn.Change{Commands: []txn.CommandResult{{ID: c.ID, Result: txn.Applied}}}
	switch c.Kind {
	case txn.CommandPause:
		change.Status = txn.Paused
	case txn.CommandResume:
		change.Status = txn.Active
	}
	o.commit(change)
}

func (o *owner) pause() { o.commit(txn.Change{Status: txn.Paused}) }

func (o *owner) protect() {
	o.commit(txn.Change{
		Protect: &txn.Protection{
			Expect:   o.next,
			Reason:   txn.ReasonNonceElsewhere,
			Evidence: "nonce 0 is used",
		},
	})
}

// commands returns the pending commands.
func (o *owner) commands() []txn.Command {
	inboxes, err := o.store.Inboxes(o.ctx, []txn.SubmitterID{o.id}, 1)
	o.must(err)
	return inboxes[o.id].Commands
}

func txID(t testing.TB, text string) txn.TxID {
	t.Helper()
	id, err := txn.ParseTxID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// wantStatus checks that an error is a status with a code and a reason, and returns it.
func wantStatus(t testing.TB, err error, code codes.Code, reason string) *grpcstatus.Status {
	t.Helper()
	s, ok := grpcstatus.FromError(err)
	if !ok || s.Code() != code || status.ReasonOf(s) != reason {
		t.Fatalf("got %v with reason %q, want %v with %q", err, status.ReasonOf(s), code, reason)
	}
	if reason == "" {
		return s
	}
	retries := slices.ContainsFunc(s.Details(),
		func(d any) bool { _, ok := d.(*errdetails.RetryInfo); return ok })
	if wants := code == codes.Unavailable || code == codes.ResourceExhausted; wants && !retries {
		t.Errorf("%v has no RetryInfo", err)
	}
	return s
}

func allToken(epoch int64, seen string) string {
	return feed.MultiToken(feed.Target{}, store.Position{Epoch: epoch, Seen: seen})
}

func isCode(err error, code codes.Code) bool {
	return grpcstatus.Code(err) == code && !errors.Is(err, context.Canceled)
}
