package store

import (
	"slices"
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// TestInboxes_ManyCommands_Bounded: the inbox of one submitter hides nothing of another's, and is
// read in parts, oldest first.
func TestInboxes_ManyCommands_Bounded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	s := k.open("a")
	alice, al := k.owned(s, "alice")
	bob, _ := k.owned(s, "bob")
	k.exec(
		"INSERT INTO submitter_command (submitter_id, kind) SELECT $1, CASE i % 2 WHEN 0 THEN "+
			"'RESUME' ELSE 'PAUSE' END FROM generate_series(1, $2::INT) i",
		alice, 3*maxCommands)
	asked, err := s.AddCommand(k.ctx, bob, Ask{Kind: txn.CommandPause})
	k.must(err)
	var seen []int64
	for look := 1; ; look++ {
		boxes, err := s.Inboxes(k.ctx, []txn.SubmitterID{bob, alice}, 8)
		k.must(err)
		if b := boxes[bob]; len(b.Commands) != 1 || b.Commands[0].ID != asked || b.More {
			t.Fatalf("bob's inbox %+v", b)
		}
		a := boxes[alice]
		if a.More != (look < 4) || look < 4 && len(a.Commands) != maxCommands {
			t.Fatalf("look %d: %d commands, more %v", look, len(a.Commands), a.More)
		}
		if len(a.Commands) == 0 {
			break
		}
		var done txn.Change
		for _, c := range a.Commands {
			seen = append(seen, c.ID)
			done.Commands = append(done.Commands, txn.CommandResult{ID: c.ID, Result: txn.Applied})
		}
		k.done(s, al, done)
	}
	if len(seen) != 3*maxCommands || !slices.IsSorted(seen) {
		t.Errorf("%d commands came, in order %v", len(seen), slices.IsSorted(seen))
	}
}
