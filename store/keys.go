package store

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Keys name the configuration of a database in errors.
type Keys struct {
	Section string // with the keys url and schema; empty: "database"
	Flag    string // that names the database to "fencepost migrate"; empty: none is needed
}

func (k Keys) key(name string) string {
	if k.Section == "" {
		return "database." + name
	}
	return k.Section + "." + name
}

// migrate returns a command on the schema of the database.
func (k Keys) migrate(command string) string {
	if k.Flag != "" {
		command += " " + k.Flag
	}
	return fmt.Sprintf("run \"fencepost migrate %s\"", command)
}

// grants returns how a role that does not own the ledger gets its rights.
func (k Keys) grants(role string) string {
	return k.migrate("grants --role "+role) + " as the owner of the ledger"
}

// explainTables names the remedy if tables are missing in this database, for an error that another
// ledger reports. Other errors are unchanged.
func (s *Store) explainTables(err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != undefinedTable {
		return err
	}
	return fmt.Errorf("%w: %w; %s", ErrDirectory, ErrSchema, s.cfg.Keys.migrate("up"))
}
