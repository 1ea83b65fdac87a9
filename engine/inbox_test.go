package engine

import (
	"fmt"
	"testing"
	"time"
)

// TestMoreCommandsThanOneLook: the owner looks again when it has done those of a look that may not have shown all, and does not wait to be told.
func TestMoreCommandsThanOneLook(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 5*time.Minute)
	if _, err := c.db.Pool.Exec(t.Context(), `INSERT INTO submitter_command (submitter_id, kind) SELECT $1, CASE i % 2 WHEN 0 THEN 'RESUME' ELSE 'PAUSE' END
		FROM generate_series(1, 250) i`, int32(c.submitters[0])); err != nil {
		t.Fatal(err)
	}
	c.start("a", func(o *Options) { o.PollInterval = time.Hour })
	c.eventually("all are decided on", func() error {
		if n := c.number("SELECT count(*) FROM submitter_command WHERE applied_at IS NULL"); n > 0 {
			return fmt.Errorf("%d are not", n)
		}
		return nil
	})
}
