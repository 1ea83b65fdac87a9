package e2e

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/dbtest/pgproxy"
	"github.com/fencepost/fencepost/store"
)

// member is one node of a cluster, with the lines to its database and its chain in the hands of the
// test.
type member struct {
	*node
	name string
	db   *pgproxy.Proxy
	tap  *tap
}

// cluster is several nodes on one ledger.
type cluster struct {
	chain   *testChain
	pool    *pgxpool.Pool // past the proxies
	members []*member
	ledger  ledgerHistory
}

// newCluster prepares and starts nodes a, b, c, ... on the database at url, which is empty.
func newCluster(t *testing.T, c *testChain, size int, o nodeOptions, url string) *cluster {
	t.Helper()
	cl := prepareCluster(t, c, size, o, url)
	cl.startAll(t)
	return cl
}

func prepareCluster(t *testing.T, c *testChain, size int, o nodeOptions, url string) *cluster {
	t.Helper()
	if _, err := store.Migrate(t.Context(), url, ""); err != nil {
		t.Fatal(err)
	}
	cl := &cluster{chain: c, pool: openPool(t, url)}
	recordLeaseHistory(t, cl.pool)
	o.keys = filepath.Join(t.TempDir(), "keys")
	saveKeys(t, o.keys, c)
	for i := range size {
		m := &member{name: string(rune('a' + i))}
		var err error
		if m.db, err = pgproxy.Start(url); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.db.Close() })
		m.tap = newTap(t, m.name, c.url, cl.pool)
		o.name, o.rpc = m.name, m.tap.url
		m.node = prepareNode(t, c, o, m.db.URL())
		m.pool = cl.pool
		cl.members = append(cl.members, m)
	}
	return cl
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (cl *cluster) startAll(t *testing.T) {
	t.Helper()
	var wg sync.WaitGroup
	for _, m := range cl.members {
		wg.Go(func() { m.start(t) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (cl *cluster) stopAll(t *testing.T) {
	t.Helper()
	for _, m := range cl.members {
		m.proc.stop(t)
	}
}

func (cl *cluster) any() *member { return cl.members[rand.IntN(len(cl.members))] }

// tryFor is how long one call may take before it is repeated on another node: one that is frozen
// never answers.
const tryFor = 2 * time.Second

// create asks node after node until one accepts, as a caller does who keeps to the contract: only
// UNAVAILABLE and a deadline are repeated.
func (cl *cluster) create(t *testing.T, submitter, request string,
	p *fencepostv1.Payload) *fencepostv1.Tx {
	t.Helper()
	var tx *fencepostv1.Tx
	eventually(t, 3*time.Minute, "CreateTx is accepted", func() (err error) {
		tx, err = cl.tryCreate(submitter, request, p)
		if code := status.Code(err); err != nil && code != codes.Unavailable &&
			code != codes.DeadlineExceeded {
			t.Errorf("CreateTx %s/%s: %v", submitter, request, err)
			return nil
		}
		return err
	})
	return tx
}

// tryCreate asks one node.
func (cl *cluster) tryCreate(submitter, request string,
	p *fencepostv1.Payload) (*fencepostv1.Tx, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tryFor)
	defer cancel()
	answer, err := cl.any().CreateTx(ctx,
		&fencepostv1.CreateTxRequest{Submitter: submitter, RequestId: request, Payload: p})
	return answer.GetTx(), err
}

// verifySendings checks law L3 for every broadcast of every node.
func (cl *cluster) verifySendings(t *testing.T) {
	t.Helper()
	for _, m := range cl.members {
		m.tap.verify(t, cl.ledger.lost)
	}
}
