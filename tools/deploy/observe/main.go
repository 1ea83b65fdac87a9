// Command observe writes what monitoring systems need: the alert rules for Prometheus, the page
// with a runbook for each alert, and a Grafana dashboard. It takes the repository's folder.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "observe: the repository's folder is missing")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "observe:", err)
		os.Exit(1)
	}
}

// outputs are the generated files, by path.
func outputs() (map[string][]byte, error) {
	rules, err := ruleFile()
	if err != nil {
		return nil, fmt.Errorf("alert rules: %w", err)
	}
	board, err := dashboardFile()
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return map[string][]byte{
		"deploy/prometheus/alerts.yaml":           rules,
		"deploy/helm/fencepost/files/alerts.yaml": rules,
		"deploy/grafana/fencepost.json":           board,
		"docs/alerts.md":                          runbooks(),
	}, nil
}

func write(root string) error {
	files, err := outputs()
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
