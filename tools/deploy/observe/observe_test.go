package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const root = "../../.."

func TestOutputs_Current(t *testing.T) {
	t.Parallel()
	files, err := outputs()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not current (%v); run \"make generate\"", name, err)
		}
	}
}

// ruleTest is the file format of "promtool test rules".
type ruleTest struct {
	RuleFiles []string   `yaml:"rule_files"`
	Interval  string     `yaml:"evaluation_interval"`
	Tests     []testCase `yaml:"tests"`
}

type testCase struct {
	Name     string      `yaml:"name"`
	Interval string      `yaml:"interval"`
	Input    []series    `yaml:"input_series"`
	Alerts   []alertTest `yaml:"alert_rule_test"`
}

type series struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type alertTest struct {
	At    string     `yaml:"eval_time"`
	Alert string     `yaml:"alertname"`
	Want  []expected `yaml:"exp_alerts"`
}

type expected struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

// TestAlerts_FireAndStaySilent runs promtool's unit tests: each alert fires on its example, and not
// on the quiet one.
func TestAlerts_FireAndStaySilent(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing; install Debian's package prometheus")
	}
	rules, err := filepath.Abs(filepath.Join(root, "deploy/prometheus/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ruleTest{} // by interval
	for _, interval := range []string{"1m", "10m"} {
		files[interval] = &ruleTest{RuleFiles: []string{rules}, Interval: interval}
	}
	examples := examples()
	for _, a := range alerts() {
		e, ok := examples[a.name]
		if !ok {
			t.Errorf("alert %s has no example", a.name)
			continue
		}
		delete(examples, a.name)
		fired := expected{Labels: map[string]string{"severity": a.severity()},
			Annotations: map[string]string{"description": a.means, "runbook_url": a.runbook(),
				"summary": a.summary}}
		for label, value := range e.labels {
			fired.Labels[label] = value
			fired.Annotations["summary"] = strings.ReplaceAll(fired.Annotations["summary"],
				"{{ $labels."+label+" }}", value)
		}
		interval := "1m"
		if at, err := time.ParseDuration(e.at); err != nil || at > 24*time.Hour {
			interval = "10m"
		}
		file := files[interval]
		file.Tests = append(file.Tests,
			testCase{a.name + " fires", interval, e.fires,
				[]alertTest{{e.at, a.fullName(), []expected{fired}}}},
			testCase{a.name + " stays silent", interval, e.quiet,
				[]alertTest{{e.at, a.fullName(), nil}}})
	}
	for name := range examples {
		t.Errorf("example of an unknown alert %s", name)
	}
	commands := [][]string{{"check", "rules", rules}}
	for interval, file := range files {
		text, err := yaml.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), interval+".yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		commands = append(commands, []string{"test", "rules", path})
	}
	for _, args := range commands {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
