package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every group reports an unknown command before the flags that follow it.
func TestUsageErrors_UnknownCommandBeforeFlags(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	all, groups := []*cobra.Command{(&program{}).root()}, 0
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Commands()...)
		if path := all[i].CommandPath(); all[i].HasSubCommands() {
			groups++
			line := append(strings.Fields(path)[1:], "qqqqqqqq", "--qqqqqqqq", "x")
			s.bad(exitUsage, `unknown command "qqqqqqqq"; see "`+path+` --help"`, line...)
		}
	}
	if groups < 10 {
		t.Errorf("only %d groups were looked at", groups)
	}
}
