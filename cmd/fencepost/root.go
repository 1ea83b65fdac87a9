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

// program is one run of the command line, with its dependencies.
type program struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
	clock    clock.Clock
	user     string // the local user; empty if unknown
	// prompt asks on the terminal, without echo.
	prompt func(ctx context.Context, question string) (string, error)
	typed  bool // in is a terminal

	watchOptions fencepost.Options // of the library, but for the connection

	json bool // --json

	missing string // ledgers that the last heartbeat of a watch named
}

// audiences are the groups of the help, by audience. Commands in no group are for everyone.
func (p *program) audiences() []audience {
	return []audience{
		{
			"set-up",
			"Set up and run:",
			[]*cobra.Command{
				p.keyCommand(),
				p.configCommand(),
				p.migrateCommand(),
				p.serveCommand(),
			},
		},
		{"send", "Send:", []*cobra.Command{p.txCommand(), p.nonceCommand()}},
		{
			"operate",
			"Operate:",
			[]*cobra.Command{
				p.statusCommand(),
				p.submitterCommand(),
				p.poolCommand(),
				p.balancesCommand(),
				p.costsCommand(),
				p.sinkCommand(),
				p.auditCommand(),
				p.archiveCommand(),
				p.explainCommand(),
				p.ledgerCommand(),
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

// root is the root command with all its sub-commands.
func (p *program) root() *cobra.Command {
	root := p.group("fencepost", "Send transactions on EVM chains exactly once")
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
		"print JSON, errors included")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return hasValues(c) }
	return root
}

// hasValues rejects flags with an empty value, as from an unset shell variable. Treated as absent,
// they would change the meaning: --to a contract creation, --not-after no deadline, --server
// another node, --submitter the transactions of all accounts.
func hasValues(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if many, ok := f.Value.(pflag.SliceValue); ok {
			values = many.GetSlice()
		}
		if strings.Join(values, "") == "" && err == nil {
			err = misused(c, "--%s is empty; give a value or omit the flag", f.Name)
		}
	})
	return err
}

// run executes a command line and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	p.addCommon(root)
	err := root.ExecuteContext(ctx)
	// Parsing may have stopped at a bad flag before --json.
	p.json = p.json || slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
	return p.report(err)
}

// addCommon adds the commands of the library. Its own accept invalid arguments.
func (p *program) addCommon(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			help := c.Run
			c.Run, c.RunE = nil, func(c *cobra.Command, args []string) error {
				if found, rest, err := root.Find(args); err != nil || found == root &&
					len(rest) > 0 || found.HasSubCommands() && len(rest) > 0 {
					return misused(root, "unknown command %q", strings.Join(args, " "))
				}
				help(c, args)
				return nil
			}
		case "completion":
			own := p.group(c.Use, c.Short)
			c.Args, c.RunE = own.Args, own.RunE
			for _, shell := range c.Commands() {
				shell.Args = arguments()
			}
		}
	}
}

// mostTypos is the largest edit distance of a suggestion.
const mostTypos = 2

// group is a command that only has sub-commands. An unknown sub-command is an error at every level.
func (p *program) group(name, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	}
	c.AddCommand(commands...)
	return c
}

// unknownCommand is the error of a name that is not a sub-command of a group.
func unknownCommand(group *cobra.Command, name string) error {
	for distance := 1; distance <= mostTypos; distance++ { // nearest first
		group.SuggestionsMinimumDistance = distance
		if near := group.SuggestionsFor(name); len(near) > 0 {
			return misused(group, "unknown command %q (did you mean %q?)", name, near[0])
		}
	}
	return misused(group, "unknown command %q", name)
}

// quoted is the annotation with a command's own example of quoting.
const quoted = "quoted"

func quotes(c *cobra.Command) string {
	if own := c.Annotations[quoted]; own != "" {
		return own
	}
	return `--value "0.1 ether"`
}

// arguments requires one argument for each name.
func arguments(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return misused(c, "%s is missing", names[len(args)])
		case len(args) > len(names):
			// The arguments are not printed: one may be a secret.
			return misused(c,
				"%s given, %d expected; quote values with spaces, as in %s",
				count(len(args), "argument"), len(names), quotes(c))
		default:
			return nil
		}
	}
}
