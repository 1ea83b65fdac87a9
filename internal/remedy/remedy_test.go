package remedy

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestRemedy(t *testing.T) {
	t.Parallel()
	inner := Errorf("pay; then retry", "no funds: %w", fs.ErrNotExist)
	for name, c := range map[string]struct {
		err           error
		cause, remedy string
	}{
		"plain":  {errors.New("a; b"), "a; b", ""},
		"remedy": {inner, "no funds: file does not exist", "pay; then retry"},
		"wrapped": {fmt.Errorf("alice: %w", inner), "alice: no funds: file does not exist",
			"pay; then retry"},
		"nested": {
			Errorf("replace it", "alice: %w", inner),
			"alice: no funds: file does not exist; pay; then retry",
			"replace it",
		},
	} {
		cause, remedy := Of(c.err)
		if cause != c.cause || remedy != c.remedy {
			t.Errorf("%s: %q, %q; want %q, %q", name, cause, remedy, c.cause, c.remedy)
		}
	}
	if !errors.Is(inner, fs.ErrNotExist) {
		t.Error("the cause is not unwrapped")
	}
}
