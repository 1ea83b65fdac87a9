package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"
)

// compose is the part of the Compose specification that the file uses. Decoding is strict, so
// another key must be added here, by its name in the specification.
type compose struct {
	Name     string             `yaml:"name"`
	Node     yaml.Node          `yaml:"x-node"`
	Services map[string]service `yaml:"services"`
	Configs  map[string]fileRef `yaml:"configs"`
	Secrets  map[string]fileRef `yaml:"secrets"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type fileRef struct {
	File string `yaml:"file"`
}

type service struct {
	Image     string            `yaml:"image"`
	Command   []string          `yaml:"command"`
	Restart   string            `yaml:"restart"`
	Grace     string            `yaml:"stop_grace_period"`
	ReadOnly  bool              `yaml:"read_only"`
	CapDrop   []string          `yaml:"cap_drop"`
	Security  []string          `yaml:"security_opt"`
	Env       map[string]string `yaml:"environment"`
	Ports     []string          `yaml:"ports"`
	Secrets   []string          `yaml:"secrets"`
	Volumes   []string          `yaml:"volumes"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Configs []struct {
		Source string `yaml:"source"`
		Target string `yaml:"target"`
	} `yaml:"configs"`
	Health *struct {
		Test     []string `yaml:"test"`
		Interval string   `yaml:"interval"`
		Retries  int      `yaml:"retries"`
	} `yaml:"healthcheck"`
}

// TestCompose_Specification loads the file as Docker Compose does: it must fit the schema of the
// Compose specification.
func TestCompose_Specification(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	load := func(text string) (*types.Project, error) {
		return loader.LoadWithContext(t.Context(), types.ConfigDetails{
			WorkingDir:  "../../../deploy/compose",
			ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: []byte(text)}},
			Environment: map[string]string{"FENCEPOST_IMAGE": "registry.example/fencepost:1"},
		})
	}
	project, err := load(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if image := project.Services["node-a"].Image; image != "registry.example/fencepost:1" {
		t.Errorf("node-a has image %q", image)
	}
	for _, c := range [][2]string{
		{"restart: always", "restarts: always"}, {"interval: 2s", "interval: often"},
		{`ports: ["9090:9090"]`, "ports: {a: b}"}, {"condition: service_healthy", "condition: ok"},
	} {
		broken := strings.Replace(string(text), c[0], c[1], 1)
		if _, err := load(broken); err == nil || broken == string(text) {
			t.Errorf("%q is accepted", c[1])
		}
	}
}

// TestCompose checks that the file is well-formed, and that each reference has its target.
func TestCompose(t *testing.T) {
	t.Parallel()
	const folder = "../../../deploy/compose"
	text, err := os.ReadFile(filepath.Join(folder, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file compose
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	conditions := map[string]bool{"service_healthy": true, "service_completed_successfully": true}
	for name, s := range file.Services {
		for other, how := range s.DependsOn {
			on, ok := file.Services[other]
			if !ok || !conditions[how.Condition] ||
				how.Condition == "service_healthy" && on.Health == nil {
				t.Errorf("%s depends on %s, %s", name, other, how.Condition)
			}
		}
		for _, secret := range s.Secrets {
			if file.Secrets[secret].File == "" {
				t.Errorf("%s uses the unknown secret %s", name, secret)
			}
		}
		for _, c := range s.Configs {
			if _, err := os.Stat(filepath.Join(folder, file.Configs[c.Source].File)); err != nil ||
				!strings.Contains(strings.Join(s.Command, " "), c.Target) {
				t.Errorf("%s: configuration %s at %s: %v", name, c.Source, c.Target, err)
			}
		}
		if s.Image == "" {
			t.Errorf("%s has no image", name)
		}
	}
	if len(file.Services) != 4 {
		t.Errorf("%d services", len(file.Services))
	}
}
