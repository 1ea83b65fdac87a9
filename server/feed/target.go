package feed

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// Target selects the events of a stream: one transaction, several named ones, the transactions of
// one submitter, or all. Labels narrow the last two. States limits the events to those that lead to
// certain states. A Target is comparable.
type Target struct {
	Tx        txn.TxID
	Txs       *IDSet
	Submitter txn.SubmitterID
	States    StateSet
	Accounts  bool   // events of accounts too; not of named transactions
	labels    string // sorted "key=value" lines; values have no line breaks
}

// WithLabels narrows a target to transactions that have all these labels.
func (t Target) WithLabels(labels map[string]string) Target {
	lines := make([]string, 0, len(labels))
	for key, value := range labels {
		lines = append(lines, key+"="+value)
	}
	slices.Sort(lines)
	t.labels = strings.Join(lines, "\n")
	return t
}

// labelSet returns the labels of the target; nil if it has none.
func (t Target) labelSet() map[string]string {
	if t.labels == "" {
		return nil
	}
	set := map[string]string{}
	for line := range strings.SplitSeq(t.labels, "\n") {
		key, value, _ := strings.Cut(line, "=")
		set[key] = value
	}
	return set
}

// indexKeys returns the keys under which the registry files a subscription: one per requested
// state, and only the first of several labels. A stream of named transactions is filed under each
// of them and sees all their events, regardless of the requested states.
func (t Target) indexKeys() (keys []Target) {
	if t.Txs != nil {
		for _, id := range *t.Txs {
			keys = append(keys, Target{Tx: id})
		}
		return keys
	}
	t.labels, _, _ = strings.Cut(t.labels, "\n")
	t.Accounts = false
	if t.States == 0 || t.Tx != (txn.TxID{}) {
		t.States = 0
		return []Target{t}
	}
	for _, state := range t.States.filter(txn.States) {
		t.States = States(state)
		keys = append(keys, t)
	}
	return keys
}

// appendEventKeys appends the index keys of the subscriptions that may want an event.
func appendEventKeys(keys []Target, e *store.EventInfo) []Target {
	keys = append(keys, Target{Tx: e.Tx})
	multi := len(keys)
	keys = append(keys, Target{Submitter: e.Submitter}, Target{})
	for key, value := range e.Labels {
		label := key + "=" + value
		keys = append(keys, Target{Submitter: e.Submitter, labels: label}, Target{labels: label})
	}
	for _, t := range keys[multi:] {
		t.States = States(e.State)
		keys = append(keys, t)
	}
	return keys
}

// IDSet is an immutable, sorted set of transaction ids.
type IDSet []txn.TxID

// NewIDSet returns the set of these distinct ids. It sorts the slice and keeps it.
func NewIDSet(ids []txn.TxID) *IDSet {
	slices.SortFunc(ids, compareIDs)
	set := IDSet(ids)
	return &set
}

func compareIDs(a, b txn.TxID) int { return bytes.Compare(a[:], b[:]) }

func (set IDSet) find(id txn.TxID) (index int, found bool) {
	return slices.BinarySearchFunc(set, id, compareIDs)
}

func (set IDSet) digest() []byte {
	h := sha256.New()
	for _, id := range set {
		h.Write(id[:])
	}
	return h.Sum(nil)[:digestBytes]
}
