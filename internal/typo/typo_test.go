package typo

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	candidates := []string{"submitter", "payload", "labels"}
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"replaced letter":    {"submittor", 2, "submitter"},
		"swapped neighbours": {"lables", 1, "labels"},
		"missing letter":     {"paload", 1, "payload"},
		"beyond the limit":   {"pay", 2, ""},
		"exact":              {"labels", 0, "labels"},
		"empty":              {"", 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Nearest(c.text, candidates, c.limit); got != c.want {
				t.Errorf("Nearest(%q) = %q, want %q", c.text, got, c.want)
			}
		})
	}
}

// TestDistance compares the table with the recursive definition.
func TestDistance(t *testing.T) {
	t.Parallel()
	var defined func(a, b string) int
	defined = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		n, m := len(a)-1, len(b)-1
		change := defined(a[:n], b[:m])
		if a[n] != b[m] {
			change++
		}
		least := min(defined(a[:n], b)+1, defined(a, b[:m])+1, change)
		if n > 0 && m > 0 && a[n] == b[m-1] && a[n-1] == b[m] {
			least = min(least, defined(a[:n-1], b[:m-1])+1)
		}
		return least
	}
	text := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		if got, want := distance(a, b), defined(a, b); got != want {
			t.Fatalf("%q to %q: %d, want %d", a, b, got, want)
		}
		longer, shorter := max(len(a), len(b)), min(len(a), len(b))
		if d := distance(a, b); d != distance(b, a) || (d == 0) != (a == b) ||
			d > longer || d < longer-shorter {
			t.Fatalf("the distance of %q and %q is %d", a, b, d)
		}
	})
}
