package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/internal/node"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/store"
)

// databaseVariable is that of the configuration, so that a URL with a password need not stand in a command line, which other users can read.
const databaseVariable = "FENCEPOST_DATABASE_URL"

func (p *program) migrateCommand() *cobra.Command {
	return p.group("migrate", "Bring the database's schema to the version of this program, or back",
		p.migrateUpCommand(), p.migrateStatusCommand(), p.migrateDownCommand())
}

// databaseFlags name the database: by the configuration, or by its URL.
type databaseFlags struct {
	config      configFlags
	url, schema string
}

func (f *databaseFlags) add(c *cobra.Command) {
	f.config.add(c)
	c.Flags().StringVar(&f.url, "database-url", "",
		"the database, without a configuration (default: the one that "+databaseVariable+" names)")
	c.Flags().StringVar(&f.schema, "schema", "", "with --database-url: schema of the ledger")
}

// database is where the ledger is, and what has named that.
type database struct{ url, schema, key string }

// database is where the ledger is.
func (p *program) database(c *cobra.Command, f databaseFlags) (l database, err error) {
	configured := f.config.file != "" || p.variable(configVariable) != ""
	if f.url != "" && f.config.file != "" {
		return l, misused(c, "--config and --database-url are both given; give one of them")
	}
	l.key = "--database-url"
	if f.url == "" && !configured {
		f.url, l.key = p.variable(databaseVariable), databaseVariable
	}
	switch {
	case f.url != "":
		url, err := config.DatabaseURL(f.url)
		if err != nil {
			return l, fmt.Errorf("%s: %w", l.key, err)
		}
		l.url, l.schema = url.Reveal(), f.schema
		return l, nil
	case f.schema != "":
		return l, misused(c,
			"--schema goes with --database-url; the configuration has a schema of its own")
	case !configured:
		return l, misused(c,
			"no database is named; give --config FILE or --database-url URL, or set %s",
			databaseVariable)
	}
	cfg, err := p.loadConfig(c, f.config)
	if err != nil {
		return l, err
	}
	return database{cfg.Database.URL.Reveal(), cfg.Database.Schema, "database.url"}, nil
}

func (p *program) migrateUpCommand() *cobra.Command {
	var f databaseFlags
	c := &cobra.Command{
		Use: "up", Short: "Bring the schema to the newest version", Args: arguments(),
		Long:    "Bring the schema to the newest version that this program knows. It may run on several machines at once: one does the work, the others wait.",
		Example: "  fencepost migrate up --config fencepost.yaml",
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
	f.add(c)
	return c
}

// upToDate says how far the schema is.
func upToDate(steps []store.Migration, ahead store.Ahead) func(io.Writer) error {
	taken := ""
	if len(steps) > 0 {
		taken = count(len(steps), "step") + " taken, "
	}
	if ahead.Version > 0 {
		return line(
			"%sthis database is at step %d, newer than the %d that this program knows; programs of this version still work on it",
			taken, ahead.Version, ahead.Known)
	}
	return line("%sthe schema is up to date", taken)
}

func (p *program) migrateStatusCommand() *cobra.Command {
	var f databaseFlags
	c := &cobra.Command{
		Use: "status", Short: "List the steps of the schema and which of them were taken", Args: arguments(),
		Long: `List the steps of the schema and which of them were taken. OLDER PROGRAMS says what becomes of programs that do not know a step: they work on beside it, or it shuts
them out, so that all nodes of theirs are stopped before it is taken. A step that this program does not know has no name.`,
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
					olderPrograms(s),
				}
			}
			if last := steps[len(steps)-1]; last.Name == "" {
				p.note(
					"this database is at step %d, which this program does not know: run a newer fencepost to see what it is",
					last.Version)
			}
			return p.print(migrationRows(steps),
				table([]string{"VERSION", "NAME", "APPLIED", "OLDER PROGRAMS"}, rows))
		},
	}
	f.add(c)
	return c
}

func (p *program) migrateDownCommand() *cobra.Command {
	var f databaseFlags
	var force bool
	c := &cobra.Command{
		Use: "down", Short: "Take the last step of the schema back", Args: arguments(),
		Long: `Take the step of the schema back that was taken last: "fencepost migrate status" tells when each was. A step back loses what the step keeps, and step 1 the
ledger, which is what keeps a request from being executed twice: where submitters are registered it is refused. --force takes it back nevertheless. With or without it all
nodes must be stopped, and what a recovered ledger keeps of what may have run before it was restored is not thrown away.`,
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
				func(w io.Writer) error { return line("step %d (%s) is taken back", step.Version, step.Name)(w) })
		},
	}
	f.add(c)
	c.Flags().BoolVar(&force, "force", false,
		"lose what the step keeps, of a ledger with submitters too")
	return c
}

// migrationRow is a step as it is printed.
type migrationRow struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied string `json:"applied,omitempty"` // when; empty: not, or just now
	Shuts   bool   `json:"shutsOutOlder"`     // programs that do not know the step
}

func olderPrograms(r migrationRow) string {
	switch {
	case r.Name == "":
		return "-"
	case r.Shuts:
		return "are shut out"
	}
	return "work on"
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
