package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fencepost/fencepost/internal/config"
)

// filesOfDeploy are the texts in deploy, by path.
func filesOfDeploy(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	root := filepath.Join("..", "..", "deploy")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestDeploy_Variables checks that every variable in deploy sets a key of the configuration.
func TestDeploy_Variables(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "fencepost.yaml")
	const keys = "signers: [{name: local, keystore: {dir: x}}]\n"
	if err := os.WriteFile(base, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	found := 0
	elsewhere := append([]string{"FENCEPOST_IMAGE"}, config.ForeignVariables...)
	variable := regexp.MustCompile(`\bFENCEPOST_[A-Z_]*[A-Z]\b`)
	for path, text := range filesOfDeploy(t) {
		for _, name := range variable.FindAllString(text, -1) {
			if slices.Contains(elsewhere, name) {
				continue
			}
			found++
			_, problems, err := config.Survey(
				config.Source{File: base, Environ: []string{name + "=/x"}})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range problems {
				if p.What == "unknown key" {
					t.Errorf("%s: %s sets no key", path, name)
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("found only %d variables", found)
	}
}

// TestDeploy_Chart_Example checks the keys of the configuration in the chart's example.
func TestDeploy_Chart_Example(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "helm", "fencepost", "ci",
		"full-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Config map[string]any `yaml:"config"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.Marshal(values.Config); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "fencepost.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, problems, err := config.Survey(config.Source{
		File:    file,
		Environ: []string{"FENCEPOST_NODE_NAME=a"},
		Set:     []string{"database.url_file=" + os.DevNull},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Key != "database.url_file" {
			t.Errorf("%s", p)
		}
	}
}

// TestDeploy_Compose_Configuration checks the keys of the configuration for compose. Its files are
// the operator's.
func TestDeploy_Compose_Configuration(t *testing.T) {
	t.Parallel()
	_, problems, err := config.Survey(config.Source{
		File:    filepath.Join("..", "..", "deploy", "compose", "fencepost.yaml"),
		Environ: []string{"FENCEPOST_NODE_NAME=a"},
		Set:     []string{"database.url_file=" + os.DevNull},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Key != "database.url_file" {
			t.Errorf("%s", p)
		}
	}
}

// TestDeploy_Systemd_SeveralLedgers loads a configuration with ledgers as the unit does with its
// drop-in: a setting of the unit that the drop-in does not remove makes the node fail.
func TestDeploy_Systemd_SeveralLedgers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "fencepost.yaml")
	text := "node: {name: a}\n" +
		"chains: [{name: dev, chain_id: 31337, rpc: [http://127.0.0.1:1]}]\n" +
		"signers: [{name: local, keystore: {dir: " + dir + "}}]\n" +
		"ledgers: [{name: eu1}, {name: us1}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set := map[string][]string{} // lines of the service by key
	for _, name := range []string{"fencepost.service", "ledgers.conf"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if set[key] = append(set[key], value); value == "" {
				set[key] = nil
			}
		}
	}
	for _, line := range set["LoadCredential"] {
		name, from, _ := strings.Cut(line, ":")
		secret := "postgres://fence@127.0.0.1/" + name
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(from) != name {
			t.Errorf("credential %s is read from %s", name, from)
		}
	}
	var environ []string
	for _, line := range set["Environment"] {
		environ = append(environ, strings.ReplaceAll(line, "%d", dir))
	}
	cfg, err := config.Load(config.Source{File: file, Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	for want, url := range map[string]config.Secret{"directory-url": cfg.Directory.URL,
		"eu1-url": cfg.Ledgers[0].URL, "us1-url": cfg.Ledgers[1].URL} {
		if !strings.HasSuffix(url.Reveal(), "/"+want) {
			t.Errorf("%s: %s", want, url.Reveal())
		}
	}
}
