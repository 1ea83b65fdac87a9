package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/internal/config"
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
	c.Flags().StringVar(&f.file, "config", "", "configuration file (default: the one that "+configVariable+" names)")
	c.Flags().StringArrayVar(&f.set, "set", nil, "key=value, over the file and the environment; as often as needed")
}

// loadConfig reads the configuration that the flags and the environment name.
func (p *program) loadConfig(c *cobra.Command, f configFlags) (*config.Config, error) {
	if f.file == "" {
		f.file = p.variable(configVariable)
	}
	if f.file == "" {
		return nil, misused(c, "no configuration file is named; give --config FILE, or set %s", configVariable)
	}
	return config.Load(config.Source{File: f.file, Environ: p.environ, Set: f.set, Ignore: foreignVariables})
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
	return p.group("config", "Check and show the configuration", p.configCheckCommand(), p.configShowCommand())
}

func (p *program) configCheckCommand() *cobra.Command {
	var f configFlags
	c := &cobra.Command{
		Use: "check", Short: "Tell everything that is wrong with the configuration", Args: arguments(),
		Example: "  fencepost config check --config fencepost.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := p.loadConfig(c, f)
			var problems config.Problems
			if p.json && errors.As(err, &problems) {
				return errors.Join(p.print(problems, nil), fmt.Errorf("the configuration has %d problems; they are printed as JSON", len(problems)))
			}
			if err != nil {
				return err
			}
			return p.print([]config.Problem{}, line("the configuration of node %s is good: %s, %s, %s", loaded.Node.Name,
				count(len(loaded.Chains), "chain"), count(len(loaded.Signers), "signer"), count(len(loaded.Submitters), "submitter")))
		},
	}
	f.add(c)
	return c
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
