package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/store"
)

// databaseVariable is the variable of the configuration. It keeps a password out of the command
// line, which other users can read.
const databaseVariable = "FENCEPOST_DATABASE_URL"

func (p *program) migrateCommand() *cobra.Command {
	return p.group("migrate", "Migrate the database schema",
		p.migrateUpCommand(), p.migrateStatusCommand(), p.migrateGrantsCommand(),
		p.migrateDownCommand())
}

// databaseFlags name the database by the configuration, or by its URL.
type databaseFlags struct {
	config      configFlags
	url, schema string
	directory   bool // of the configuration, instead of a ledger
}

// addAny adds the flags of a command on any database with a schema: of a ledger or a directory.
func (f *databaseFlags) addAny(c *cobra.Command) {
	f.add(c)
	c.Flags().BoolVar(&f.directory, "directory", false,
		"the database in directory.url, instead of a ledger")
}

func (f *databaseFlags) add(c *cobra.Command) {
	f.config.addLedger(c)
	c.Flags().StringVar(&f.url, "database-url", "",
		"URL of the database, instead of --config (default: $"+databaseVariable+")")
	c.Flags().StringVar(&f.schema, "schema", "", "schema of the ledger, with --database-url")
}

// database is the location of the ledger; key is the flag, variable or key that named it.
type database struct {
	url, schema, key string
	cfg              *config.Config // nil: no configuration was given
}

// database is the database in the flags, the environment or the configuration.
func (p *program) database(c *cobra.Command, f databaseFlags) (l database, err error) {
	configured := f.config.file != "" || p.variable(configVariable) != ""
	if f.url != "" && f.config.file != "" {
		return l, misused(c, "--config and --database-url exclude each other; give one of them")
	}
	if f.directory {
		return p.directoryDatabase(c, f)
	}
	l.key = "--database-url"
	if f.url == "" && !configured {
		f.url, l.key = p.variable(databaseVariable), databaseVariable
	}
	switch {
	case f.url != "" && (f.config.ledger != "" || len(f.config.set) > 0):
		return l, misused(c, "--ledger and --set need --config; the database is in %s", l.key)
	case f.url != "":
		url, err := config.DatabaseURL(f.url)
		if err != nil {
			return l, fmt.Errorf("%s: %w", l.key, err)
		}
		l.url, l.schema = url.Reveal(), f.schema
		return l, nil
	case f.schema != "":
		return l, misused(c,
			"--schema needs --database-url; with --config, set database.schema")
	case !configured:
		return l, misused(c,
			"no database given; give --config FILE or --database-url URL, or set %s",
			databaseVariable)
	}
	cfg, err := p.loadLedger(c, f.config)
	if err != nil {
		return l, err
	}
	return database{cfg.Database.URL.Reveal(), cfg.Database.Schema, cfg.DatabaseKey(), cfg}, nil
}

// directoryDatabase is the database of the directory in the configuration.
func (p *program) directoryDatabase(c *cobra.Command, f databaseFlags) (l database, err error) {
	if f.url != "" || f.schema != "" || f.config.ledger != "" {
		return l, misused(c, "--directory excludes --database-url, --schema and --ledger")
	}
	cfg, err := p.loadConfig(c, f.config)
	if err != nil {
		return l, err
	}
	if cfg.Directory.URL.Reveal() == "" {
		return l, errNoDirectory
	}
	return database{cfg.Directory.URL.Reveal(), cfg.Directory.Schema, "directory.url", cfg}, nil
}

func (p *program) migrateUpCommand() *cobra.Command {
	var f databaseFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run all pending migrations",
		Args:  arguments(),
		Long: `Run all pending migrations. It is safe to run on several machines at once: one does
the work and the others wait.`,
		Example: "  fencepost migrate up --config fencepost.yaml\n" +
			"  fencepost migrate up --directory --config fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := p.database(c, f)
			if err != nil {
				return err
			}
			steps, err := store.Migrate(c.Context(), at.url, at.schema)
			if err != nil {
				return node.Unreachable(err, at.url, at.key)
			}
			ahead, err := store.LookAhead(c.Context(), at.url, at.schema)
			if err != nil {
				return err
			}
			if ahead.Oldest > ahead.Known {
				return ahead
			}
			return p.print(migrationRows(steps), upToDate(steps, ahead))
		},
	}
	f.addAny(c)
	return c
}

// upToDate reports the version of the schema.
func upToDate(steps []store.Migration, ahead store.Ahead) func(io.Writer) error {
	applied := ""
	if len(steps) > 0 {
		applied = count(len(steps), "migration") + " applied, "
	}
	if ahead.Version > 0 {
		return line(
			"%sschema version %d is newer than this program (%d), but compatible",
			applied, ahead.Version, ahead.Known)
	}
	return line("%sschema is up to date", applied)
}

func (p *program) migrateStatusCommand() *cobra.Command {
	var f databaseFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "List migrations and whether they are applied",
		Args:  arguments(),
		Long: `List migrations and whether they are applied. OLDER NODES shows whether nodes that
do not know a migration keep working; if not, stop them before you apply it. A migration that this
program does not know has no name.`,
		Example: "  fencepost migrate status --config fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := p.database(c, f)
			if err != nil {
				return err
			}
			steps, err := store.MigrateStatus(c.Context(), at.url, at.schema)
			if err != nil {
				return node.Unreachable(err, at.url, at.key)
			}
			rows := make([][]string, len(steps))
			for i, s := range migrationRows(steps) {
				rows[i] = []string{
					fmt.Sprint(s.Version),
					shown(s.Name),
					shown(s.Applied),
					olderNodes(s),
				}
			}
			if last := steps[len(steps)-1]; last.Name == "" {
				p.note(
					"migration %d is unknown to this program; run a newer fencepost to see it",
					last.Version)
			}
			return p.print(migrationRows(steps),
				table([]string{"VERSION", "NAME", "APPLIED", "OLDER NODES"}, rows))
		},
	}
	f.addAny(c)
	return c
}

// grantsSchema is the schema to print grants for. Unlike database, it needs no database.
func (p *program) grantsSchema(c *cobra.Command, f databaseFlags) (string, error) {
	configured := f.config.file != "" || f.schema == "" && p.variable(configVariable) != ""
	switch {
	case f.directory:
	case f.schema != "" && f.config.file != "":
		return "", misused(c, "--schema and --config exclude each other; set database.schema")
	case f.url != "", configured:
	case f.config.ledger != "" || len(f.config.set) > 0:
		return "", misused(c, "--ledger and --set need --config; give one, or --schema alone")
	default:
		return f.schema, nil
	}
	at, err := p.database(c, f)
	return at.schema, err
}

func (p *program) migrateGrantsCommand() *cobra.Command {
	var f databaseFlags
	var role string
	var readOnly, archives, show bool
	c := &cobra.Command{
		Use:   "grants --role ROLE",
		Short: "Give a PostgreSQL role the rights that nodes need",
		Args:  arguments(),
		Long: `Give a PostgreSQL role the rights that nodes need, and take away any others that it
has on the ledger. Such a role cannot change the schema, remove a row, or rewrite an event or a
signed transaction. Run it as the owner of the ledger, and again after "fencepost migrate up".
Nodes then connect as the role; "migrate" and "recover" need the owner.

With --read-only the role can read all tables but the signed transactions (tx_attempt). With
--archive it can run "fencepost archive": it can remove events, labels, call data and answered
requests about nonces, and cannot read signed transactions or take part in sending.`,
		Example: `  fencepost migrate grants --role fencepost_node --config fencepost.yaml
  fencepost migrate grants --role grafana --read-only --print --schema public`,
		RunE: func(c *cobra.Command, _ []string) error {
			grants := store.NodeGrants
			switch {
			case readOnly && archives:
				return misused(c, "--read-only and --archive exclude each other; give one of them")
			case readOnly:
				grants = store.ReaderGrants
			case archives:
				grants = store.ArchiveGrants
			}
			if role == "" {
				return misused(c, "--role is missing; name the role to give rights to")
			}
			if show {
				schema, err := p.grantsSchema(c, f)
				if err != nil {
					return err
				}
				sql := grants.Statements(schema, role)
				return p.print(map[string]string{"sql": sql}, line("%s", strings.TrimSpace(sql)))
			}
			at, err := p.database(c, f)
			if err != nil {
				return err
			}
			if err := store.Grant(c.Context(), at.url, at.schema, role, grants); err != nil {
				return node.Unreachable(err, at.url, at.key)
			}
			return p.print(map[string]string{"role": role, "rights": string(grants)},
				line("role %s has the rights of a %s", role, grants))
		},
	}
	f.addAny(c)
	c.Flags().StringVar(&role, "role", "", "PostgreSQL role to give rights to; it must exist")
	c.Flags().BoolVar(&readOnly, "read-only", false, "the rights of a reader instead of a node's")
	c.Flags().BoolVar(&archives, "archive", false, "the rights of an archive instead of a node's")
	c.Flags().BoolVar(&show, "print", false, "print the SQL instead of running it")
	return c
}

func (p *program) migrateDownCommand() *cobra.Command {
	var f databaseFlags
	var force bool
	c := &cobra.Command{
		Use:   "down",
		Short: "Revert the last migration",
		Args:  arguments(),
		Long: `Revert the last migration ("fencepost migrate status" lists them). All nodes must be
stopped. It loses the data that the migration keeps, and version 1 the ledger itself, which prevents
requests from being executed twice. It is therefore refused if submitters are registered; --force
overrides this. Data of a restored ledger about transactions that may have run is never dropped.`,
		Example: "  fencepost migrate down --config fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := p.database(c, f)
			if err != nil {
				return err
			}
			step, err := store.MigrateDown(c.Context(), at.url, at.schema, force)
			if err != nil {
				return node.Unreachable(err, at.url, at.key)
			}
			return p.print(migrationRows([]store.Migration{step})[0],
				func(w io.Writer) error {
					return line("migration %d (%s) reverted", step.Version,
						step.Name)(w)
				})
		},
	}
	f.addAny(c)
	c.Flags().BoolVar(&force, "force", false,
		"revert even if submitters are registered; loses data")
	return c
}

// migrationRow is a migration as printed.
type migrationRow struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied string `json:"applied,omitempty"` // time; empty: pending, or applied by this command
	Shuts   bool   `json:"shutsOutOlder"`     // nodes that do not know the migration
}

func olderNodes(r migrationRow) string {
	switch {
	case r.Name == "":
		return "-"
	case r.Shuts:
		return "rejected"
	}
	return "keep working"
}

func migrationRows(steps []store.Migration) []migrationRow {
	rows := make([]migrationRow, len(steps))
	for i, s := range steps {
		rows[i] = migrationRow{Version: s.Version, Name: s.Name, Shuts: s.ShutsOut}
		if !s.AppliedAt.IsZero() {
			rows[i].Applied = s.AppliedAt.UTC().Format(timeForm)
		}
	}
	return rows
}
