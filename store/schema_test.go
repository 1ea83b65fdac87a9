package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/fencepost/fencepost/internal/dbtest"
)

// blank is a schema without a ledger.
func (k *kit) blank() string {
	name := k.db.Schema + "_m"
	k.t.Cleanup(func() {
		drop := "DROP SCHEMA IF EXISTS " + name + " CASCADE"
		if _, err := k.db.Pool.Exec(context.Background(), drop); err != nil {
			k.t.Error(err)
		}
	})
	return name
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	schema := k.blank()
	s := k.open("a", func(c *Config) { c.URL, c.Schema = k.db.URL, schema })
	if err := s.CheckSchema(k.ctx); !errors.Is(err, ErrSchema) ||
		!strings.Contains(err.Error(), "fencepost migrate up") {
		t.Fatalf("without a ledger: %v", err)
	}
	// Four programs at the same moment: one does it.
	var all sync.WaitGroup
	steps := make([]int, 4)
	for i := range steps {
		all.Go(func() {
			done, err := Migrate(k.ctx, k.db.URL, schema)
			if err != nil {
				t.Error(err)
			}
			steps[i] = len(done)
		})
	}
	all.Wait()
	files, err := filepath.Glob("../queries/migrations/*.sql")
	k.must(err)
	if total := steps[0] + steps[1] + steps[2] + steps[3]; total != len(files) {
		t.Fatalf("%v steps were done, there are %d", steps, len(files))
	}
	k.must(s.CheckSchema(k.ctx))
	status, err := MigrateStatus(k.ctx, k.db.URL, schema)
	k.must(err)
	if len(status) != len(files) || status[0].Version != 1 || status[0].AppliedAt.IsZero() ||
		status[0].Name == "" {
		t.Fatalf("status %+v", status)
	}
	if same := "SELECT count(*) FROM information_schema.columns a FULL JOIN " +
		"information_schema.columns b ON a.table_schema = $1 AND b.table_schema = $2 " +
		"AND (a.table_name, a.column_name, a.data_type, a.is_nullable) = (b.table_name, " +
		"b.column_name, b.data_type, b.is_nullable) " +
		"WHERE (a.table_schema = $1 AND b.table_schema IS NULL) OR (b.table_schema = $2 AND " +
		"a.table_schema IS NULL)"; value[int](
		k,
		same,
		schema,
		k.db.Schema,
	) != 0 {
		t.Fatal("tests run on another schema than Migrate makes")
	}
}

func TestCheckSchema_OtherVersion(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	k.must(s.CheckSchema(k.ctx))
	k.exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, TRUE)")
	for oldest, good := range map[int64]bool{latest() - 1: true, latest(): true,
		latest() + 1: false, 99999: false} {
		k.exec("UPDATE ledger SET min_node_schema = $1", oldest)
		switch err := s.CheckSchema(k.ctx); {
		case good && err != nil:
			t.Errorf("a newer ledger that programs of version %d still work on: %v", oldest, err)
		case !good && (!errors.Is(err, ErrSchema) ||
			!strings.Contains(err.Error(), "run a newer fencepost")):
			t.Errorf("a newer ledger for programs of version %d: %v", oldest, err)
		}
	}
	k.exec("DELETE FROM goose_db_version WHERE version_id > 0")
	if err := s.CheckSchema(k.ctx); !errors.Is(err, ErrSchema) ||
		!strings.Contains(err.Error(), "run \"fencepost migrate up\"") {
		t.Fatalf("an older ledger: %v", err)
	}
}

// TestCheckSchema_StepMissing_Refused: the newest migration does not imply the ones before it.
func TestCheckSchema_StepMissing_Refused(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	schema := k.blank()
	_, err := Migrate(k.ctx, k.db.URL, schema)
	k.must(err)
	s := k.open("a", func(c *Config) { c.URL, c.Schema = k.db.URL, schema })
	k.must(s.CheckSchema(k.ctx))
	k.exec("ALTER TABLE " + schema + ".managed_tx DROP COLUMN ended_block")
	k.exec("DELETE FROM " + schema + ".goose_db_version WHERE version_id = 7")
	if err := s.CheckSchema(k.ctx); !errors.Is(err, ErrSchema) ||
		!strings.Contains(err.Error(), "but not migration 7; run \"fencepost migrate up\"") {
		t.Errorf("without step 7: %v", err)
	}
	done, err := Migrate(k.ctx, k.db.URL, schema)
	k.must(err)
	if len(done) != 1 || done[0].Version != 7 {
		t.Errorf("done %+v", done)
	}
	k.must(s.CheckSchema(k.ctx))
}

// TestMigrations_DeclareMinNodeSchema: the effect of a migration on older programs is decided when
// it is written, not when a node refuses to start.
func TestMigrations_DeclareMinNodeSchema(t *testing.T) {
	t.Parallel()
	const first = 8 // which brought the number
	files, err := filepath.Glob("../queries/migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		version, err := goose.NumericComponent(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		sets := strings.Contains(up,
			fmt.Sprintf("UPDATE ledger SET min_node_schema = %d;", version))
		if version > first && !sets && !strings.Contains(up, "-- min_node_schema stays: ") {
			t.Errorf(
				"%s neither sets min_node_schema to %d nor says \"-- min_node_schema stays: \" "+
					"and why older programs can live with it",
				file, version)
		}
	}
}

// TestMigrateDown takes a step back only where nothing is lost, or by force.
func TestMigrateDown(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	schema := k.blank()
	migrate := func() {
		t.Helper()
		_, err := Migrate(k.ctx, k.db.URL, schema)
		k.must(err)
	}
	migrate()
	undone, err := MigrateDown(k.ctx, k.db.URL, schema, false)
	k.must(err)
	if undone.Version != latest() {
		t.Fatalf("undone %+v", undone)
	}
	migrate()
	s := k.open("a", func(c *Config) { c.URL, c.Schema = k.db.URL, schema })
	id := k.submitter(s, "alice")
	if _, err := MigrateDown(k.ctx, k.db.URL, schema, false); !errors.Is(err, ErrLedgerInUse) {
		t.Fatalf("a ledger with a submitter was thrown away: %v", err)
	}
	if info, err := s.Submitter(k.ctx, id); err != nil || info.Name != "alice" {
		t.Fatalf("%+v %v", info, err)
	}
	if _, err := MigrateDown(k.ctx, k.db.URL, schema, true); err != nil {
		t.Fatalf("by force: %v", err)
	}
	if err := s.CheckSchema(k.ctx); !errors.Is(err, ErrSchema) {
		t.Fatalf("%v", err)
	}
}

// TestMigrateDown_RestoredLedger_RefusedEvenIfForced: nodes at work, and the marks of a restore.
func TestMigrateDown_RestoredLedger_RefusedEvenIfForced(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	schema := k.blank()
	_, err := Migrate(k.ctx, k.db.URL, schema)
	k.must(err)
	s := k.open("a", func(c *Config) { c.URL, c.Schema = k.db.URL, schema })
	id := k.submitter(s, "alice")
	k.queue(s, id, "r1")
	down := func() error {
		_, err := MigrateDown(k.ctx, k.db.URL, schema, true)
		return err
	}
	k.exec(
		"UPDATE " + schema + ".submitter_lease SET owner_node = 'b/1', fencing_token = " +
			"fencing_token + 1, expires_at = clock_timestamp() + interval '1 hour'")
	if err := down(); !errors.Is(err, ErrLedgerLive) ||
		!strings.Contains(err.Error(), "stop all nodes") {
		t.Fatalf("beside a node: %v", err)
	}
	k.exec(
		"UPDATE " + schema + ".submitter_lease SET expires_at = clock_timestamp() - interval '1 " +
			"hour'")
	_, err = s.Recover(k.ctx)
	k.must(err)
	for v := latest(); v > 9; v-- {
		k.must(down())
	}
	if err := down(); !errors.Is(err, errRestored) {
		t.Fatalf("the marks of a restore are lost: %v", err)
	}
	_, err = Migrate(k.ctx, k.db.URL, schema)
	k.must(err)
	k.must(s.CheckSchema(k.ctx))
}

// TestMigrateStatus_ReportsShutOut reads it where it is decided.
func TestMigrateStatus_ReportsShutOut(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	steps, err := MigrateStatus(k.ctx, k.db.URL, k.db.Schema)
	k.must(err)
	for _, step := range steps {
		if want := step.Version <= 9 || step.Version == 11; step.Version <= 12 &&
			step.ShutsOut != want {
			t.Errorf("step %d shuts older programs out: %v, want %v", step.Version, step.ShutsOut,
				want)
		}
	}
}

// TestMigrateDown_OutOfOrder: a migration that was missing, and was applied after newer ones, is
// undone first, and no program takes the rest for complete.
func TestMigrateDown_OutOfOrder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	schema := k.blank()
	_, err := Migrate(k.ctx, k.db.URL, schema)
	k.must(err)
	s := k.open("a", func(c *Config) { c.URL, c.Schema = k.db.URL, schema })
	k.exec("ALTER TABLE " + schema + ".managed_tx DROP COLUMN ended_block")
	k.exec("DELETE FROM " + schema + ".goose_db_version WHERE version_id = 7")
	_, err = Migrate(k.ctx, k.db.URL, schema)
	k.must(err)
	var order []int64
	for range latest() {
		undone, err := MigrateDown(k.ctx, k.db.URL, schema, false)
		k.must(err)
		order = append(order, undone.Version)
		if err := s.CheckSchema(k.ctx); !errors.Is(err, ErrSchema) ||
			!strings.Contains(err.Error(), "fencepost migrate up") {
			t.Fatalf("without %v the schema is good: %v", order, err)
		}
	}
	want := []int64{7}
	for v := latest(); v > 0; v-- {
		if v != 7 {
			want = append(want, v)
		}
	}
	if !slices.Equal(order, want) {
		t.Errorf("taken back in the order %v, want %v", order, want)
	}
	if _, err := MigrateDown(k.ctx, k.db.URL, schema, false); !errors.Is(err, errNoMigration) {
		t.Errorf("one too many: %v", err)
	}
	_, err = Migrate(k.ctx, k.db.URL, schema)
	k.must(err)
	k.must(s.CheckSchema(k.ctx))
}

// TestMigrate_AttemptsBeforeOutcomes migrates an older ledger: rejections are unknown, so a pool
// may hold any attempt.
func TestMigrate_AttemptsBeforeOutcomes(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.WithoutGuard()) // which knows the newest schema alone
	s := k.open("a")
	id, lease := k.owned(s, "alice")
	signed, queued := k.queue(s, id, "signed"), k.queue(s, id, "queued")
	k.done(s, lease, take(signed, 0))
	k.must(withProvider(k.ctx, k.db.URL, k.db.Schema, true, func(p *goose.Provider) error {
		if _, err := p.DownTo(k.ctx, 4); err != nil {
			return err
		}
		_, err := p.Up(k.ctx)
		return err
	}))
	for tx, want := range map[string]int{signed.ID.String(): 1, queued.ID.String(): 0} {
		got := value[int](k, "SELECT pooled_attempt FROM managed_tx WHERE tx_id = $1", tx)
		if got != want {
			t.Errorf("the newest that a pool may have is %d, want %d", got, want)
		}
	}
}

// TestMigrate_NoDatabase_Unavailable: errors name the cause and nothing that is secret.
func TestMigrate_NoDatabase_Unavailable(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for url, want := range map[string]string{
		"postgres://fence:s3cret@127.0.0.1:1/x?sslmode=disable":  "the connection is refused",
		"postgres://fence:s3cret@nowhere.invalid/x":              "host name is not found",
		"postgres:///x?host=/nowhere&user=fence&password=s3cret": "the socket does not exist",
		"postgres://fence:s3cret@127.0.0.1:70000/x":              "is not a PostgreSQL URL",
		"s3cret": "is not a PostgreSQL URL",
		"postgres://fence:s3cret@127.0.0.1/x?sslmode=disable%20x": "is not a PostgreSQL URL",
	} {
		if _, err := Migrate(ctx, url, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		} else {
			noSecrets(t, err, "s3cret", "fence:", "127.0.0.1")
		}
	}
	k := newKit(t)
	if strings.Contains(k.db.Through("x:1"), "@") &&
		os.Getenv("FENCEPOST_TEST_DATABASE_URL") == "" {
		wrong := strings.Replace(k.db.Through(k.db.TCPAddr()), "@", "wrong@", 1)
		if _, err := Migrate(ctx, wrong, ""); err == nil ||
			!strings.Contains(err.Error(), "the password is wrong") {
			t.Errorf("with a wrong password: %v", err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Config{URL: "postgres://localhost/x", Node: "a/1"}
	for want, tweak := range map[string]func(*Config){
		"node must be": func(c *Config) { c.Node = "" },
		"below a third of the lease": func(c *Config) {
			c.LeaseDuration,
				c.StatementTimeout = 3e9, 1e9
		},
		"lease duration must":           func(c *Config) { c.LeaseDuration = 1 },
		"group limits and pool sizes":   func(c *Config) { c.MaxGroupChanges = -1 },
		"is not a PostgreSQL URL":       func(c *Config) { c.URL = "mysql://x" },
		"write it as postgres://user:p": func(c *Config) { c.URL = "postgres://%zz" },
	} {
		c := good
		tweak(&c)
		if s, err := Open(context.Background(), c); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
			if s != nil {
				s.Close()
			}
		}
	}
	s, err := Open(context.Background(), good)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, _, err := s.CreateTx(context.Background(), Intent{Submitter: 1}); !errors.Is(err,
		ErrUnavailable) {
		t.Errorf("a closed store says %v", err)
	}
}
