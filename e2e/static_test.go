package e2e

import (
	"debug/elf"
	"testing"
)

// verifyStatic checks that a program needs no dynamic linker, and so no libraries of its machine.
func verifyStatic(t *testing.T, program string) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is linked dynamically", program)
		}
	}
}
