package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	fencepost "github.com/fencepost/fencepost/clients/go"
	"github.com/fencepost/fencepost/internal/clock"
)

// program is one run of the command line, with all that it may touch outside.
type program struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
	clock    clock.Clock
	user     string                                                     // who runs it; empty when the system does not say
	prompt   func(ctx context.Context, question string) (string, error) // asks a person, without echo
	typed    bool                                                       // in is a terminal

	watchOptions fencepost.Options // of the library, but for the connection

	json bool // --json
}

// audiences are the groups of the help, by who needs their commands. What is in none is for everybody.
func (p *program) audiences() []audience {
	return []audience{
		{
			"set-up",
			"Set it up and run it:",
			[]*cobra.Command{
				p.keyCommand(),
				p.configCommand(),
				p.migrateCommand(),
				p.serveCommand(),
			},
		},
		{"send", "Send with it:", []*cobra.Command{p.txCommand()}},
		{
			"operate",
			"Look after it:",
			[]*cobra.Command{
				p.submitterCommand(),
				p.auditCommand(),
				p.explainCommand(),
				p.recoverCommand(),
				p.benchCommand(),
			},
		},
		{"", "", []*cobra.Command{p.versionCommand()}},
	}
}

type audience struct {
	id, title string
	commands  []*cobra.Command
}

// root is the program as a command, with all the others below it.
func (p *program) root() *cobra.Command {
	root := p.group("fencepost", "Gets transactions on EVM chains exactly once")
	for _, u := range p.audiences() {
		if u.id != "" {
			root.AddGroup(&cobra.Group{ID: u.id, Title: u.title})
		}
		for _, c := range u.commands {
			c.GroupID = u.id
			root.AddCommand(c)
		}
	}
	root.PersistentFlags().BoolVar(&p.json, "json", false,
		"print JSON instead of tables, errors too")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return hasValues(c) }
	return root
}

// hasValues refuses a flag that is given without a value, as a variable that is not set would give: taken for one that is left out it would mean another thing, such as a
// contract to be created (--to), no deadline (--not-after), another node (--server) or transactions of all (--submitter).
func hasValues(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if many, ok := f.Value.(pflag.SliceValue); ok {
			values = many.GetSlice()
		}
		if strings.Join(values, "") == "" && err == nil {
			err = misused(c, "--%s is empty; give it a value, or leave the flag out", f.Name)
		}
	})
	return err
}

// run executes a command line and gives the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	err := root.ExecuteContext(ctx)
	p.json = p.json ||
		slices.Contains(args, "--json") // a flag before it may have been what was not understood
	return p.report(err)
}

// mostTypos is how many letters of a name may be wrong for it to be taken for that name.
const mostTypos = 2

// group is a command that only holds others. A name that is none of theirs is an error, at every depth.
func (p *program) group(name, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		for c.SuggestionsMinimumDistance = 1; c.SuggestionsMinimumDistance <= mostTypos; c.SuggestionsMinimumDistance++ { // the nearest is meant
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				return misused(c, "there is no command %q (did you mean %q?)", args[0], near[0])
			}
		}
		return misused(c, "there is no command %q", args[0])
	}
	c.AddCommand(commands...)
	return c
}

// quoted is the annotation of a command that has an example of its own for quotes.
const quoted = "quoted"

func quotes(c *cobra.Command) string {
	if own := c.Annotations[quoted]; own != "" {
		return own
	}
	return `--value "0.1 ether"`
}

// arguments demands one argument for each name, in words.
func arguments(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return misused(c, "%s is missing", names[len(args)])
		case len(args) > len(names):
			// The arguments are not quoted: one of them may be a secret that belongs elsewhere.
			return misused(c,
				"%s given, %d expected; put a value with blanks into quotes, as in %s",
				count(len(args), "argument"), len(names), quotes(c))
		default:
			return nil
		}
	}
}
