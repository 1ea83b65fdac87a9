package store

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pressly/goose/v3"

	"github.com/fencepost/fencepost/queries"
)

// CheckSchema compares the migrations of the database with the ones of this program. ErrSchema
// reports which of the two is older, and the remedy. A migration that is missing in the middle
// counts like one at the end. A newer schema is accepted if its migrations declare that programs of
// this version still work on it, so that nodes of two releases can work side by side.
func (s *Store) CheckSchema(ctx context.Context) error {
	taken, err := s.own().SchemaVersions(ctx)
	if why := s.absent(ctx, err); why != nil {
		return fmt.Errorf("store: check the schema: %w", why)
	}
	if err != nil {
		return s.failed(ctx, "check the schema", err)
	}
	steps := known()
	wanted, version := slices.Max(steps), int64(0)
	if len(taken) > 0 {
		version = slices.Max(taken)
	}
	for _, step := range steps {
		switch {
		case slices.Contains(taken, step):
		case version < wanted:
			return fmt.Errorf(
				"store: check the schema: %w: it has version %d and this program needs %d; %s",
				ErrSchema, version, wanted, s.cfg.Keys.migrate("up"))
		default:
			return fmt.Errorf(
				"store: check the schema: %w: it has version %d, but not migration %d; %s",
				ErrSchema, version, step, s.cfg.Keys.migrate("up"))
		}
	}
	if version == wanted {
		return s.checkIntegrity(ctx)
	}
	oldest, err := s.own().MinNodeSchema(ctx)
	if err != nil {
		return s.failed(ctx, "check the schema", err)
	}
	if oldest > wanted {
		return fmt.Errorf(
			"store: check the schema: %w: the database has version %d and needs a program that "+
				"knows %d; this one knows %d; run a newer fencepost",
			ErrSchema,
			version,
			oldest,
			wanted,
		)
	}
	return nil
}

// latest is the newest version that this program knows.
func latest() int64 { return slices.Max(known()) }

// known returns the versions of the migrations of this program.
func known() (versions []int64) {
	names, _ := fs.Glob(queries.Migrations, "migrations/*.sql") // the pattern is good
	for _, name := range names {
		if v, err := goose.NumericComponent(name); err == nil {
			versions = append(versions, v)
		}
	}
	return versions
}
