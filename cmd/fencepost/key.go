package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/sign"
)

// maxKeyBytes limits the size of a private key file.
const maxKeyBytes = 4 << 10

func (p *program) keyCommand() *cobra.Command {
	return p.group("key", "Manage the keys of a key store", p.keyNewCommand(),
		p.keyImportCommand(), p.keyListCommand())
}

// keyFlags are common to the commands that write keys.
type keyFlags struct {
	dir, passwordFile string
	light             bool
}

func (f *keyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.dir, "dir", "", "folder of the key store; created if missing (required)")
	c.Flags().StringVar(&f.passwordFile, "password-file", "",
		"file with the password (default: prompt on the terminal)")
	c.Flags().BoolVar(&f.light, "light", false, "use weak, fast encryption, for development only")
}

func (f *keyFlags) strength() sign.Strength {
	if f.light {
		return sign.Light
	}
	return sign.Standard
}

func (p *program) keyNewCommand() *cobra.Command {
	var f keyFlags
	c := &cobra.Command{
		Use:     "new --dir FOLDER",
		Short:   "Create a key in an encrypted key file",
		Args:    arguments(),
		Example: "  fencepost key new --dir ./keys --password-file ./password",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.dir == "" {
				return misused(c, "--dir is missing")
			}
			password, err := p.newPassword(c.Context(), f.passwordFile)
			if err != nil {
				return err
			}
			made, err := sign.NewKey(f.dir, password, f.strength(), p.clock.Now())
			if err != nil {
				return err
			}
			return p.printKeys([]sign.KeyFile{made})
		},
	}
	f.add(c)
	return c
}

func (p *program) keyImportCommand() *cobra.Command {
	var f keyFlags
	c := &cobra.Command{
		Use:   "import --dir FOLDER FILE",
		Short: "Import a private key into an encrypted key file",
		Long: `Import a private key into an encrypted key file.

FILE holds the key as 64 hex digits; "-" reads it from standard input, or prompts on a terminal.
Key files in geth's format need no import: copy them into the folder.`,
		Example: "  fencepost key import --dir ./keys --password-file ./password ./key.hex\n" +
			"  vault read -field=key secret/hot |" +
			" fencepost key import --dir ./keys --password-file ./password -",
		Args: arguments("FILE, the file with the private key,"),
		RunE: func(c *cobra.Command, args []string) error {
			if f.dir == "" {
				return misused(c, "--dir is missing")
			}
			key, err := p.readKey(c.Context(), args[0])
			if err != nil {
				return err
			}
			password, err := p.newPassword(c.Context(), f.passwordFile)
			if err != nil {
				return err
			}
			made, err := sign.ImportKey(f.dir, key, password, f.strength(), p.clock.Now())
			if err != nil {
				return err
			}
			return p.printKeys([]sign.KeyFile{made})
		},
	}
	f.add(c)
	return c
}

func (p *program) keyListCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "list --dir FOLDER",
		Short:   "List the keys of a key store; needs no password",
		Args:    arguments(),
		Example: "  fencepost key list --dir ./keys",
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				return misused(c, "--dir is missing")
			}
			files, err := sign.List(dir)
			if err != nil {
				return err
			}
			return p.printKeys(files)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder of the key store (required)")
	return c
}

// readKey reads a private key from a file, standard input or the terminal.
func (p *program) readKey(ctx context.Context, from string) (*ecdsa.PrivateKey, error) {
	if _, err := sign.ParseHexKey([]byte(from)); err == nil {
		return nil, usageError{
			"private key given as an argument, visible to other users and in the shell history; " +
				"treat it as compromised and give a file instead",
		}
	}
	var content []byte
	var err error
	switch {
	case from == "-" && p.typed:
		var text string
		text, err = p.prompt(ctx, "Private key (64 hex digits): ")
		content = []byte(text)
	case from == "-":
		content, err = io.ReadAll(io.LimitReader(p.in, maxKeyBytes))
	default:
		content, err = readHead(from)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"file %s does not exist; give the file with the private key, or - for standard input",
			from)
	}
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	return sign.ParseHexKey(content)
}

func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxKeyBytes))
}

// keyRow is a key as printed.
type keyRow struct {
	Address string `json:"address,omitempty"`
	File    string `json:"file"`
	Problem string `json:"problem,omitempty"`
}

func (p *program) printKeys(files []sign.KeyFile) error {
	keys, rows := make([]keyRow, len(files)), make([][]string, len(files))
	for i, f := range files {
		keys[i].File = f.Path
		if f.Address != (sign.KeyFile{}).Address {
			keys[i].Address = f.Address.Hex()
		}
		if f.Broken != nil {
			keys[i].Problem = f.Broken.Error()
		}
		shown := keys[i].Address
		if shown == "" {
			shown = "unknown"
		}
		problem := keys[i].Problem
		if problem == "" {
			problem = "none"
		}
		rows[i] = []string{shown, f.Path, problem}
	}
	return p.print(keys, table([]string{"ADDRESS", "FILE", "PROBLEM"}, rows))
}
