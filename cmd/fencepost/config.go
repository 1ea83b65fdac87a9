package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/internal/node"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/telemetry"
)

// configVariable names the configuration file for commands without --config.
const configVariable = config.Prefix + "CONFIG"

// foreignVariables begin like those of the configuration and mean something else.
var foreignVariables = []string{configVariable, serverVariable, tokenVariable}

// configFlags are what commands that need the configuration have in common.
type configFlags struct {
	file string
	set  []string
}

func (f *configFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "config", "",
		"configuration file (default: the one that "+configVariable+" names)")
	c.Flags().StringArrayVar(&f.set, "set", nil,
		"key=value, over the file and the environment; as often as needed")
}

// loadConfig reads the configuration that the flags and the environment name.
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
			"no configuration file is named; give --config FILE, or set %s", configVariable)
	}
	return config.Source{
		File:    f.file,
		Environ: p.environ,
		Set:     f.set,
		Ignore:  foreignVariables,
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
	c := &cobra.Command{
		Use: "check", Short: "Tell everything that is wrong with the configuration and its files", Args: arguments(),
		Long: `Tell everything that is wrong with the configuration, and with the files that it names: certificates and tokens that are none, keys that do not open with their
password, submitters without a key, ABIs that cannot be read. A node refuses to start for any of these.

Database and chains are not contacted, and no port is taken: what a node finds out from them at its start is not checked.`,
		Example: "  fencepost config check --config fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, keys, err := p.checkConfig(c, f)
			var problems config.Problems
			if p.json &&
				errors.As(err,
					&problems) { // the result of a check; the error says them too, as that of every command does
				return errors.Join(p.print(problems, nil), err)
			}
			if err != nil {
				return err
			}
			return p.print(
				[]config.Problem{},
				line(
					"the configuration of node %s is good: %s, %s with %s, %s\nnot checked: the database and the chains, which are not contacted, and whether the ports are free",
					loaded.Node.Name, count(len(loaded.Chains), "chain"),
					count(len(loaded.Signers), "signer"), count(keys, "key"),
					count(len(loaded.Submitters), "submitter")),
			)
		},
	}
	f.add(c)
	return c
}

// checkConfig reads the configuration and tries its files: of one that is wrong otherwise those whose own keys are right.
func (p *program) checkConfig(c *cobra.Command,
	f configFlags) (loaded *config.Config, keys int, err error) {
	source, err := p.source(c, f)
	if err != nil {
		return nil, 0, err
	}
	loaded, problems, err := config.Survey(source)
	if err != nil {
		return nil, 0, err
	}
	form := loaded.Log.Format
	if p.json || form == "" { // empty: it is wrong, which is told
		form = "json"
	}
	log, err := telemetry.NewLogger(p.err, "warn", form) // others that can read secrets, say
	if err != nil {
		return nil, 0, err
	}
	var ofFiles config.Problems
	keys, err = node.CheckFiles(c.Context(), loaded, log)
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
		Use: "show", Short: "Print every key as it is in force and where it comes from, without secrets", Args: arguments(),
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
