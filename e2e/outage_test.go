package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencepost/fencepost/chain/devchain"
	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/pgembed"
)

// TestStart_InvalidConfig_Fails starts a node with a permanent mistake, which must be reported in
// one sentence with the fix.
func TestStart_InvalidConfig_Fails(t *testing.T) {
	t.Parallel()
	c := embedded(t, time.Second, 2)
	for name, mistake := range map[string]struct {
		make func(t *testing.T, n *node)
		says []string
	}{
		"unknown key in the configuration": {
			func(t *testing.T, n *node) { n.edit(t, "release_depth", "release_dept") }, []string{
				"release_dept", "release_depth", "fencepost.yaml:",
			},
		},
		"wrong chain id": {
			func(t *testing.T, n *node) {
				n.edit(
					t, "chain_id: 31337", "chain_id: 31338",
				)
			}, []string{"31337", "31338", "dev"},
		},
		"key not in the key store": {
			func(t *testing.T, n *node) {
				files, err := filepath.Glob(filepath.Join(n.dir, "keys", "*"))
				if err != nil || len(files) != 2 {
					t.Fatal(files, err)
				}
				if err := os.Remove(files[0]); err != nil {
					t.Fatal(err)
				}
			}, []string{"has no key for 0x", "fencepost key import"},
		},
		"wrong password": {
			func(t *testing.T, n *node) {
				writeFile(
					t, filepath.Join(n.dir, "password"), "something else",
				)
			}, []string{"password"},
		},
		"schema never migrated": {
			func(t *testing.T, n *node) { n.url = "" }, []string{"fencepost migrate up"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := prepareNode(t, c, nodeOptions{confirmations: 1, poll: 50 * time.Millisecond},
				freshDatabase(t))
			url := n.url
			mistake.make(t, n)
			if n.url != "" {
				n.migrate(t)
			}
			said := n.refuses(t)
			for _, want := range mistake.says {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
			if strings.Contains(said, url) || strings.Contains(said, c.url) ||
				strings.Contains(said, "goroutine") {
				t.Errorf("the log has too much:\n%s", said)
			}
		})
	}
}

// TestDatabaseOutage_Recovers starts a node without its database, takes the database away while it
// works, and sees everything end well.
func TestDatabaseOutage_Recovers(t *testing.T) {
	t.Parallel()
	c := embedded(t, 100*time.Millisecond, 1)
	postgres, err := pgembed.Start(t.Context(), pgembed.Options{Settings: pgembed.Disposable()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgres.Stop(context.Background()) })
	n := prepareNode(t, c, nodeOptions{confirmations: 2, poll: 50 * time.Millisecond},
		postgres.URL("postgres"))
	n.migrate(t)
	if err := postgres.Kill(); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = n.CreateTx(ctx,
		&fencepostv1.CreateTxRequest{Submitter: "s00", RequestId: "early", Payload: transfer})
	if status.Code(err) != codes.Unavailable || reasonOf(err) != "STORE_UNAVAILABLE" {
		t.Errorf("CreateTx without a database: %v, reason %q", err, reasonOf(err))
	}
	restart(t, postgres)
	n.await(t, n.createOnceUp(t, "early"), time.Minute)
	var ids []string
	for _, request := range []string{"a", "b", "c", "d"} {
		ids = append(ids, n.createOnceUp(t, request))
		if err := postgres.Kill(); err != nil {
			t.Fatal(err)
		}
		restart(t, postgres)
	}
	for _, id := range ids {
		tx := n.await(t, id, time.Minute)
		if tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
			t.Errorf("%v", tx)
		}
	}
	n.verifyLedger(t, c, 1, 5)
	n.proc.stop(t)
}

// createOnceUp is create for when the database is on its way: a submitter may not be registered
// yet.
func (n *node) createOnceUp(t *testing.T, request string) string {
	t.Helper()
	eventually(t, time.Minute, "the submitter is known", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := n.GetSubmitter(ctx, &fencepostv1.GetSubmitterRequest{Submitter: "s00"})
		return err
	})
	return n.create(t, "s00", request, transfer).GetTxId()
}

func restart(t *testing.T, s *pgembed.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestChainOutage_Recovers starts a node without its chain, takes the chain away while it works,
// and sees everything end well.
func TestChainOutage_Recovers(t *testing.T) {
	t.Parallel()
	o := devchain.Options{Period: 100 * time.Millisecond, Accounts: 1, DataDir: t.TempDir()}
	dev, err := devchain.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, dev.URL())
	c.keys = append(c.keys, devchain.Key(0))
	o.Port = portOf(t, dev.URL())
	down := func() {
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
	}
	up := func() {
		if dev, err = devchain.Start(o); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = dev.Close() })
	n := prepareNode(t, c, nodeOptions{confirmations: 2, poll: 50 * time.Millisecond},
		freshDatabase(t))
	n.migrate(t)
	down()
	n.start(t)
	early := n.create(t, "s00", "early", transfer).GetTxId()
	eventually(t, 30*time.Second, "the queue head has the reason of its wait", func() error {
		answer, err := n.GetTx(context.Background(),
			&fencepostv1.GetTxRequest{Key: &fencepostv1.GetTxRequest_TxId{TxId: early}})
		if err == nil && answer.GetTx().GetReason() != "CHAIN_UNAVAILABLE" {
			err = errNotYet
		}
		return err
	})
	up()
	n.await(t, early, time.Minute)
	ids := []string{
		n.create(t, "s00", "a", transfer).GetTxId(),
		n.create(t, "s00", "b", transfer).GetTxId(),
	}
	down()
	ids = append(ids, n.create(t, "s00", "c", transfer).GetTxId())
	up()
	for _, id := range ids {
		tx := n.await(t, id, time.Minute)
		if tx.GetState() != fencepostv1.TxState_TX_STATE_CONFIRMED {
			t.Errorf("%v", tx)
		}
	}
	n.verifyLedger(t, c, 1, 4)
	n.proc.stop(t)
}
