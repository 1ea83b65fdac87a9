package engine

import (
	"testing"

	"github.com/fencepost/fencepost/chain/chaintest"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// TestResume_NamesPause_OtherStays expects the owner to end only the pause that a resume names,
// although it has applied the later pause itself.
func TestResume_NamesPause_OtherStays(t *testing.T) {
	t.Parallel()
	r, c := pipelinedChain(t, 1, chaintest.Options{})
	r.startOn(c, "a", nil)
	paused := func() int64 {
		info, err := r.admin.Submitter(t.Context(), r.submitters[0])
		if err != nil {
			t.Fatal(err)
		}
		if info.Pause == nil {
			return 0
		}
		return info.Pause.ID
	}
	want := func(result string, ask store.Ask) {
		t.Helper()
		if got := r.decide(ask); got != result {
			t.Fatalf("%s of pause %d: %s, want %s", ask.Kind, ask.Expect, got, result)
		}
	}
	want(txn.Applied, store.Ask{Kind: txn.CommandPause})
	first := paused()
	want(txn.ResultPauseChanged, store.Ask{Kind: txn.CommandResume, Expect: first + 1})
	want(txn.Applied, store.Ask{Kind: txn.CommandResume, Expect: first})
	if now := paused(); now != 0 {
		t.Fatalf("pause %d is in force after the resume", now)
	}
	want(txn.Applied, store.Ask{Kind: txn.CommandPause})
	want(txn.ResultPauseChanged, store.Ask{Kind: txn.CommandResume, Expect: first})
	if now := paused(); now <= first {
		t.Fatalf("pause %d is in force, want one after %d", now, first)
	}
	want(txn.Applied, store.Ask{Kind: txn.CommandResume})
}
