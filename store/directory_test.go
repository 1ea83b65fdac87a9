package store

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
)

// directoryKit is a directory in the first of several ledgers.
type directoryKit struct {
	*kit
	ledgers []*kit
}

func newDirectoryKit(t *testing.T, ledgers int) *directoryKit {
	t.Helper()
	d := &directoryKit{}
	for range ledgers {
		d.ledgers = append(d.ledgers, newKit(t))
	}
	d.kit = d.ledgers[0]
	return d
}

// node opens a ledger as a node with the directory.
func (d *directoryKit) node(ledger int, tweaks ...func(*Config)) *Store {
	d.t.Helper()
	directory := d.open("directory", tweaks...)
	return d.ledgers[ledger].open("a", func(c *Config) {
		c.Directory = directory
		c.LeaseDuration = time.Minute // a test of several databases takes longer than others
	})
}

// join adds a ledger to the directory as its owner does.
func (d *directoryKit) join(ledger int, name string) (DirectoryLedger, error) {
	d.t.Helper()
	directory, own := d.open("directory", d.asOwner), d.ledgers[ledger]
	s := own.open("join", own.asOwner, func(c *Config) { c.Directory = directory })
	return s.JoinDirectory(d.ctx, name)
}

func registration(name string, address byte) Registration {
	return Registration{Name: name, Chain: 1, Address: txn.Address{address}, Signer: "local",
		Mode: txn.Strict, StartFrom: "0"}
}

func TestDirectory_AccountInOtherLedger_Refused(t *testing.T) {
	t.Parallel()
	d := newDirectoryKit(t, 2)
	for i, name := range []string{"eu1", "us1"} {
		joined, err := d.join(i, name)
		d.must(err)
		if first, last := numbersOf(int32(i)); joined.First != first || joined.Last != last {
			t.Errorf("%s has the numbers %d to %d, want %d to %d", name, joined.First,
				joined.Last, first, last)
		}
	}
	eu, us := d.node(0), d.node(1)
	alice, created, err := eu.Register(d.ctx, registration("alice", 1))
	if err != nil || !created {
		t.Fatalf("alice: %v %v", created, err)
	}
	for _, r := range []Registration{registration("alice", 1), registration("alice", 2),
		registration("bob", 1)} {
		if _, _, err := us.Register(d.ctx, r); !errors.Is(err, ErrSubmitterExists) {
			t.Errorf("%s with address %x in the other ledger: %v", r.Name, r.Address[:1], err)
		}
	}
	bob, created, err := us.Register(d.ctx, registration("bob", 2))
	if err != nil || !created {
		t.Fatalf("bob: %v %v", created, err)
	}
	if alice.ID != 1 || bob.ID != 1<<numberBits {
		t.Errorf("alice has number %d, bob %d", alice.ID, bob.ID)
	}
	all, err := d.node(1).cfg.Directory.DirectoryLedgers(d.ctx)
	d.must(err)
	if len(all) != 2 || all[0].Name != "eu1" || all[0].Accounts != 1 || all[1].Accounts != 1 {
		t.Errorf("the directory has %+v", all)
	}
}

// TestDirectory_Away_OnlyNewAccountsFail: a directory that is down affects registrations alone, and
// not those of submitters that exist.
func TestDirectory_Away_OnlyNewAccountsFail(t *testing.T) {
	t.Parallel()
	d := newDirectoryKit(t, 1)
	_, err := d.join(0, "eu1")
	d.must(err)
	_, _, err = d.node(0).Register(d.ctx, registration("alice", 1))
	d.must(err)
	cut := d.node(0, func(c *Config) {
		c.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("the directory is away")
		}
	})
	if _, created, err := cut.Register(d.ctx, registration("alice", 1)); err != nil || created {
		t.Errorf("alice again: %v %v", created, err)
	}
	_, _, err = cut.Register(d.ctx, registration("bob", 2))
	if !errors.Is(err, ErrDirectory) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("bob without a directory: %v", err)
	}
	if _, _, err := d.node(0).Register(d.ctx, registration("bob", 2)); err != nil {
		t.Errorf("bob later: %v", err)
	}
}

func TestDirectory_NotAsked_Refused(t *testing.T) {
	t.Parallel()
	d := newDirectoryKit(t, 2)
	_, err := d.join(0, "eu1")
	d.must(err)
	if _, _, err := d.open("a").Register(d.ctx, registration("alice", 1)); !errors.Is(err,
		ErrDirectory) {
		t.Errorf("a node without directory.url registers in a ledger that has one: %v", err)
	}
	if _, _, err := d.node(1).Register(d.ctx, registration("alice", 1)); !errors.Is(err,
		ErrDirectory) {
		t.Errorf("a ledger that did not join registers: %v", err)
	}
	if n := value[int](d.kit, "SELECT count(*) FROM submitter"); n != 0 {
		t.Errorf("%d submitters", n)
	}
}

func TestDirectory_Join(t *testing.T) {
	t.Parallel()
	d := newDirectoryKit(t, 3)
	for i, names := range [][]string{{"alice", "bob"}, {"carol"}} {
		for j, name := range names {
			_, _, err := d.ledgers[i].open("a").Register(d.ctx, registration(name, byte(10*i+j)))
			d.must(err)
		}
	}
	for range 2 {
		if joined, err := d.join(0, "eu1"); err != nil || joined.Accounts != 2 {
			t.Fatalf("the first ledger: %+v %v", joined, err)
		}
	}
	if _, err := d.join(0, "other"); !errors.Is(err, ErrCannotJoin) {
		t.Errorf("under another name: %v", err)
	}
	if _, err := d.join(2, "eu1"); !errors.Is(err, ErrCannotJoin) {
		t.Errorf("another ledger under the same name: %v", err)
	}
	if _, err := d.join(1, "us1"); !errors.Is(err, ErrCannotJoin) {
		t.Errorf("a second ledger with submitters: %v", err)
	}
	if _, err := d.join(2, "us1"); err != nil {
		t.Errorf("after refusals: %v", err)
	}
	next, _, err := d.node(0).Register(d.ctx, registration("dora", 30))
	d.must(err)
	if next.ID != 3 {
		t.Errorf("the first ledger goes on with number %d", next.ID)
	}
	// A directory that was restored lacks claims; another ledger may have made one meanwhile.
	d.exec("DELETE FROM directory_account WHERE name = 'bob'")
	if _, err := d.join(0, "eu1"); err != nil {
		t.Errorf("a claim that is missing: %v", err)
	}
	if n := value[int](d.kit, "SELECT count(*) FROM directory_account WHERE name = 'bob'"); n != 1 {
		t.Errorf("%d claims of bob", n)
	}
	d.exec("UPDATE directory_account SET no = 1 WHERE name = 'bob'")
	if _, err := d.join(0, "eu1"); !errors.Is(err, ErrCannotJoin) {
		t.Errorf("an account that another ledger has claimed: %v", err)
	}
}

// TestDirectory_Concurrent_OneWins: of many nodes on two ledgers that register one account, those
// of one ledger succeed.
func TestDirectory_Concurrent_OneWins(t *testing.T) {
	t.Parallel()
	d := newDirectoryKit(t, 2)
	for i, name := range []string{"eu1", "us1"} {
		_, err := d.join(i, name)
		d.must(err)
	}
	nodes := []*Store{d.node(0), d.node(1)}
	var created, known, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			_, first, err := nodes[i%2].Register(d.ctx, registration("alice", 1))
			switch {
			case errors.Is(err, ErrSubmitterExists):
				refused.Add(1)
			case err != nil:
				t.Error(err)
			case first:
				created.Add(1)
			default:
				known.Add(1)
			}
		})
	}
	all.Wait()
	if created.Load() != 1 || known.Load() != 7 || refused.Load() != 8 {
		t.Errorf("%d created, %d known, %d refused", created.Load(), known.Load(), refused.Load())
	}
}

// TestDirectory_PoolInOtherLedger_Refused: two ledgers with a pool of one name would execute its
// requests twice.
func TestDirectory_PoolInOtherLedger_Refused(t *testing.T) {
	t.Parallel()
	d := newDirectoryKit(t, 3)
	old := d.open("a")
	_, _, err := old.CreatePool(d.ctx, "early", 1)
	d.must(err)
	for i, name := range []string{"eu1", "us1"} {
		_, err := d.join(i, name)
		d.must(err)
	}
	eu, us := d.node(0), d.node(1)
	if _, created, err := eu.CreatePool(d.ctx, "fees", 1); err != nil || !created {
		t.Fatalf("the first pool: %v %v", created, err)
	}
	if _, created, err := eu.CreatePool(d.ctx, "fees", 1); err != nil || created {
		t.Errorf("the pool again: %v %v", created, err)
	}
	for _, name := range []string{"fees", "early"} {
		if _, _, err := us.CreatePool(d.ctx, name, 1); !errors.Is(err, ErrPoolExists) {
			t.Errorf("pool %s in another ledger: %v", name, err)
		}
	}
	_, _, err = d.ledgers[2].open("a").CreatePool(d.ctx, "fees", 1)
	d.must(err)
	if _, err := d.join(2, "us2"); !errors.Is(err, ErrCannotJoin) {
		t.Errorf("a ledger joins with a pool that another one has: %v", err)
	}
	all, err := eu.cfg.Directory.DirectoryLedgers(d.ctx)
	d.must(err)
	if len(all) != 2 || all[0].Accounts != 0 {
		t.Errorf("the directory counts pools as accounts: %+v", all)
	}
	for name, want := range map[string]int32{"us1": 1, "eu1": -1} {
		number, err := us.DirectoryNumber(d.ctx, name)
		if (err == nil) != (want >= 0) || err == nil && number != want {
			t.Errorf("the second ledger as %s: %d %v", name, number, err)
		}
	}
}
