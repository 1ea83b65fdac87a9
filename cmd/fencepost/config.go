package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/node"
	"github.com/fencepost/fencepost/internal/telemetry"
)

// configVariable names the configuration file for commands without --config.
const configVariable = config.Prefix + "CONFIG"

// configFlags are common to the commands that need the configuration.
type configFlags struct {
	file   string
	set    []string
	ledger string // of several
}

func (f *configFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "config", "",
		"configuration file (default: $"+configVariable+")")
	c.Flags().StringArrayVar(&f.set, "set", nil,
		"key=value that overrides file and environment; repeatable")
}

// addLedger adds the flags of a command on one ledger.
func (f *configFlags) addLedger(c *cobra.Command) {
	f.add(c)
	c.Flags().StringVar(&f.ledger, "ledger", "", "name of the ledger, if the configuration has "+
		"several")
}

// loadLedger reads the configuration of one ledger.
func (p *program) loadLedger(c *cobra.Command, f configFlags) (*config.Config, error) {
	cfg, err := p.loadConfig(c, f)
	if err != nil {
		return nil, err
	}
	one, err := cfg.OfLedger(f.ledger)
	if err != nil {
		return nil, misused(c, "--ledger: %v", err)
	}
	return one, nil
}

// loadConfig reads the configuration named by the flags or the environment.
func (p *program) loadConfig(c *cobra.Command, f configFlags) (*config.Config, error) {
	source, err := p.source(c, f)
	if err != nil {
		return nil, err
	}
	return config.Load(source)
}

func (p *program) source(c *cobra.Command, f configFlags) (config.Source, error) {
	if f.file == "" {
		f.file = p.variable(configVariable)
	}
	if f.file == "" {
		return config.Source{}, misused(c,
			"no configuration file; give --config FILE, or set %s", configVariable)
	}
	return config.Source{
		File:    f.file,
		Environ: p.environ,
		Set:     f.set,
		Ignore:  config.ForeignVariables,
	}, nil
}

// variable is the value of an environment variable; empty when it is not set.
func (p *program) variable(name string) string {
	for _, pair := range p.environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

func (p *program) configCommand() *cobra.Command {
	return p.group("config", "Check and show the configuration", p.configCheckCommand(),
		p.configShowCommand())
}

func (p *program) configCheckCommand() *cobra.Command {
	var f configFlags
	var offline bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and its files",
		Args:  arguments(),
		Long: `Check the configuration and the files it names, and report all problems: invalid
certificates and tokens, keys that the password does not open, submitters without a key, unreadable
ABIs. A node does not start with any of these. Insecure settings, approve_above without a caller who
may approve, and grpc.max_connections above the open file limit of this process are logged as
warnings. Remote signers are asked whether they have the configured keys, unless --offline is given.

Database, chains and ports are not checked.`,
		Example: "  fencepost config check --config fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, keys, err := p.checkConfig(c, f, offline)
			var problems config.Problems
			if p.json &&
				errors.As(err,
					&problems) { // the result; the error has them too, like every command
				return errors.Join(p.print(problems, nil), err)
			}
			if err != nil {
				return err
			}
			return p.print(
				[]config.Problem{},
				line(
					"configuration of node %s is valid: %s, %s with %s, %s\n"+
						"not checked: database, chains, ports",
					loaded.Node.Name, count(len(loaded.Chains), "chain"),
					count(len(loaded.Signers), "signer"), count(keys, "key"),
					count(len(loaded.Submitters), "submitter")),
			)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&offline, "offline", false, "do not connect to remote signers")
	return c
}

// checkConfig reads the configuration and its files. Of an invalid configuration it reads the files
// whose keys are valid.
func (p *program) checkConfig(c *cobra.Command,
	f configFlags, offline bool) (loaded *config.Config, keys int, err error) {
	source, err := p.source(c, f)
	if err != nil {
		return nil, 0, err
	}
	loaded, problems, err := config.Survey(source)
	if err != nil {
		return nil, 0, err
	}
	form := loaded.Log.Format
	if p.json || form == "" { // empty: invalid, which is reported
		form = "json"
	}
	log, err := telemetry.NewLogger(p.err, "warn", form) // such as secrets that others can read
	if err != nil {
		return nil, 0, err
	}
	var ofFiles config.Problems
	keys, err = node.CheckFiles(c.Context(), loaded, log, offline)
	if err != nil && !errors.As(err, &ofFiles) {
		return nil, 0, err
	}
	if all := append(problems, ofFiles...); len(all) > 0 {
		return nil, 0, all
	}
	return loaded, keys, nil
}

func (p *program) configShowCommand() *cobra.Command {
	var f configFlags
	c := &cobra.Command{
		Use:     "show",
		Short:   "Print the effective configuration and its sources, without secrets",
		Args:    arguments(),
		Example: "  fencepost config show --config fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := p.loadConfig(c, f)
			if err != nil {
				return err
			}
			rows := make([][]string, len(loaded.Settings))
			for i, s := range loaded.Settings {
				rows[i] = []string{s.Key, s.Value, s.From}
			}
			return p.print(loaded.Settings, table([]string{"KEY", "VALUE", "FROM"}, rows))
		},
	}
	f.add(c)
	return c
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
