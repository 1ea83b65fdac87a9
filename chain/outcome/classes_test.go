package outcome

import (
	"testing"

	"github.com/fencepost/fencepost/txn"
)

// Each class has a meaning, in the order of txn.Classes.
func TestMeanings_AllClasses(t *testing.T) {
	t.Parallel()
	all := Meanings()
	if len(all) != len(txn.Classes) {
		t.Fatalf("%d meanings of %d classes", len(all), len(txn.Classes))
	}
	for i, m := range all {
		if m.Class != txn.Classes[i] {
			t.Errorf("%s stands where the list has %s", m.Class, txn.Classes[i])
		}
	}
}
