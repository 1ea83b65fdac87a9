package txn

import "testing"

func TestLastErrorBase(t *testing.T) {
	t.Parallel()
	var s Status
	s.LastError = "it reverted"
	for _, answer := range []string{"no answer", "no answer; since then none"} {
		s.appendError(s.baseError(), answer)
		if s.LastError != "it reverted; since then "+answer || s.baseError() != "it reverted" {
			t.Errorf("%q appended: %q, base %q", answer, s.LastError, s.LastErrorBase)
		}
	}
	var empty Status
	for _, answer := range []string{"a", "b"} {
		empty.appendError(empty.baseError(), answer)
		if empty.LastError != "; since then "+answer {
			t.Errorf("without a base: %q", empty.LastError)
		}
	}
	tx := Tx{Status: s}
	v := View{}
	next := s
	if got := v.move(&tx, "", &next, 0)[0].Next; got.LastErrorBase != "it reverted" {
		t.Errorf("kept by a move: %q", got.LastErrorBase)
	}
	for _, other := range []string{"", "it reverted", "another error"} {
		next.LastError = other
		if got := v.move(&tx, "", &next, 0)[0].Next; got.LastErrorBase != "" ||
			got.baseError() != other {
			t.Errorf("replaced by %q: base %q", other, got.LastErrorBase)
		}
	}
}

func TestBaseOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lastError, recorded, want string }{
		"recorded": {"a; since then b", "a", "a"},
		"recorded with the separator": {"a; since then b; since then c", "a; since then b",
			"a; since then b"},
		"nothing appended":              {"a", "", ""},
		"from an older release":         {"a; since then b", "", "a"},
		"rewritten by an older release": {"x", "a", ""},
		"appended by an older release":  {"x; since then b", "a", "x"},
	} {
		if got := BaseOf(c.lastError, c.recorded); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
