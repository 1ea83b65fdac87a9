package main

import (
	"strings"
	"testing"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Missing, repeated, reordered and foreign events are reported.
func TestClients_WatchMatchesLedger(t *testing.T) {
	t.Parallel()
	ledger := truthOf(
		[]eventLog{{"x", "s0", "part-0", 3}, {"y", "s0", "part-1", 1}, {"z", "s1", "part-0", 2}})
	for name, c := range map[string]struct {
		target target
		saw    string // transaction and seq
		fault  string // empty: none
	}{
		"all":               {target{}, "x1 z1 x2 y1 x3 z2", ""},
		"a submitter":       {target{submitter: "s0"}, "x1 x2 y1 x3", ""},
		"a label":           {target{label: "part-0"}, "x1 z1 x2 x3 z2", ""},
		"nothing is for it": {target{label: "part-7"}, "", ""},
		"the last is missing": {
			target{submitter: "s0"}, "x1 x2 y1", "it saw 2 of the 3 events of x",
		},
		"one between is missing": {
			target{submitter: "s0"}, "x1 y1 x3", "event 3 of x came where 2 was next",
		},
		"the first is missing": {
			target{submitter: "s1"}, "z2", "event 2 of z came where 1 was next",
		},
		"one is twice": {
			target{submitter: "s1"}, "z1 z1 z2", "event 1 of z came where 2 was next",
		},
		"the last is twice": {
			target{submitter: "s1"}, "z1 z2 z2", "event 2 of z came where 3 was next",
		},
		"two have changed places": {
			target{submitter: "s1"}, "z2 z1", "event 2 of z came where 1 was next",
		},
		"a transaction is missing": {
			target{submitter: "s0"}, "x1 x2 x3", "it saw 0 of the 1 events of y",
		},
		"one of another submitter": {
			target{submitter: "s1"}, "z1 z2 y1",
			"it saw events of 2 transactions, and 1 are for it",
		},
		"everything is missing": {target{}, "", "it saw 0 of the 3 events of x"},
		"more than the ledger has": {
			target{label: "part-1"}, "y1 y2", "it saw 2 of the 1 events of y",
		},
		"nothing is for it but one": {
			target{label: "part-7"}, "x1", "it saw events of 1 transactions, and 0 are for it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatcher(c.target)
			for _, event := range strings.Fields(c.saw) {
				w.saw(&pb.TxEvent{TxId: event[:1], Seq: uint64(event[1] - '0')})
			}
			err := ledger.check(w)
			if (err == nil) != (c.fault == "") || err != nil && err.Error() != c.fault {
				t.Errorf("%v, want %q", err, c.fault)
			}
		})
	}
	if n := ledger.events(target{submitter: "s0"}); n != 4 {
		t.Errorf("%d events of a submitter, want 4", n)
	}
}

// A crowd has watchers of each kind, each compared by its target.
func TestWatcherTargets(t *testing.T) {
	t.Parallel()
	submitters := []string{"s0", "s1", "s2"}
	kinds := map[string]int{}
	w := watch{watchers: 1000, events: 1000}
	for i := range w.watchers {
		target, kind := w.targetOf(i, submitters), ""
		switch r := target.request(); {
		case r.GetSubmitter() != "" && r.GetSubmitter() == target.submitter &&
			len(r.GetLabels()) == 0:
			kind = "submitter"
		case r.GetAll() != nil && target.label != "" && len(r.GetLabels()) == 1 &&
			r.GetLabels()[0] == "part="+target.label:
			kind = "label"
		case r.GetAll() != nil && target.label == "" && len(r.GetLabels()) == 0:
			kind = "all"
		}
		kinds[kind]++
	}
	if kinds["all"] != ofAll || kinds["label"] != 99 || kinds["submitter"] != 900 {
		t.Errorf("%v", kinds)
	}
	if alone := (watch{1, 1000}).targetOf(0, submitters); alone != (target{}) {
		t.Errorf("one alone watches %s", alone)
	}
}
