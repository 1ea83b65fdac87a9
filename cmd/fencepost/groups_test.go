package main

import (
	"slices"
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

// A command on the database rejects the flags of calls to a node, and its help lacks them.
func TestDatabaseCommands_FlagsOfCalls_Rejected(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	all, tested := []*cobra.Command{(&program{}).root()}, 0
	for i := 0; i < len(all); i++ {
		c := all[i]
		all = append(all, c.Commands()...)
		if c.Flags().Lookup("config") == nil || c.InheritedFlags().Lookup("server") == nil {
			continue
		}
		tested++
		line := strings.Fields(c.CommandPath())[1:]
		help := s.good(append(slices.Clone(line), "--help")...)
		values := map[string]string{"bool": "true", "duration": "1s", "string": "x"}
		for _, f := range visited(c.Parent().PersistentFlags().VisitAll) {
			if strings.Contains(help, "--"+f.Name+" ") {
				t.Errorf("the help of %q has --%s", line, f.Name)
			}
			s.bad(exitUsage, "--"+f.Name+" is for calls to a node", append(slices.Clone(line), "x",
				"--"+f.Name+"="+values[f.Value.Type()])...)
		}
	}
	if tested < 2 {
		t.Errorf("only %d commands were tested", tested)
	}
}
