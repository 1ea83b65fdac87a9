package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadmeCommands runs every command of the README literally, except `make test`, which CI runs
// beside this test.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	commands := commandsOf(t, root, "README.md")
	run := map[string]bool{"make test": true}
	dev := startDev(t, root, "make run")
	run["make run"] = true
	for _, line := range dev.pasted(t) {
		out := bash(t, root, line)
		if strings.Contains(line, "WatchTx") || strings.Contains(line, "--watch") {
			inOrder(t, line, out, "QUEUED", "ALLOCATED", "TRACKING", "INCLUDED", "CONFIRMED")
		}
	}
	if out := bash(t, root, "make demo"); !strings.Contains(out, "equal") ||
		strings.Contains(out, "DIFFERENT") {
		t.Errorf("make demo:\n%s", out)
	}
	run["make demo"] = true
	dev.interrupt(t)
	again := startDev(t, root, "make run") // and resumes where it left off
	for _, line := range again.pasted(t) {
		if strings.Contains(line, "WatchTx") {
			inOrder(t, line, bash(t, root, line), "QUEUED", "CONFIRMED")
		}
	}
	again.killAll(t)
	again = startDev(t, root, "make run") // and so it does when it was killed
	for _, line := range again.pasted(t) {
		if strings.Contains(line, "WatchTx") {
			inOrder(t, line, bash(t, root, line), "QUEUED", "CONFIRMED")
		}
	}
	if strings.Contains(again.output(t), "resetting chain and ledger") {
		t.Errorf("after a kill:\n%s", again.output(t))
	}
	again.interrupt(t)
	dir := t.TempDir()
	for _, line := range useIt(t, root, dir, commands) {
		run[line] = true
	}
	runLaptopCommands(t, root, dir)
	for _, line := range commands {
		if !run[line] {
			t.Errorf("the README has a command that this test does not run: %s", line)
		}
	}
}

// commandsOf are the lines of a document that are there to be typed.
func commandsOf(t *testing.T, root, document string) []string {
	t.Helper()
	return typed(t, document, documentOf(t, root, document))
}

func documentOf(t *testing.T, root, document string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// typed are the lines of a text that are there to be typed.
func typed(t *testing.T, what, text string) (lines []string) {
	t.Helper()
	for _, block := range regexp.MustCompile(
		"(?s)```sh\n(.*?)```",
	).FindAllStringSubmatch(text, -1) {
		block := strings.ReplaceAll(strings.TrimSpace(block[1]), "\\\n", "")
		lines = append(lines, strings.Split(block, "\n")...)
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no commands", what)
	}
	return lines
}

// dev is a running `make run`.
type dev struct {
	*process
	log string
}

func startDev(t *testing.T, root, command string) *dev {
	t.Helper()
	d := &dev{log: filepath.Join(t.TempDir(), "dev.log")}
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir = root
	d.process = startGroup(t, cmd, d.log)
	eventually(t, 5*time.Minute, command+" prints its guide", func() error {
		select {
		case <-d.done:
			t.Fatalf("%s ended:\n%s", command, d.output(t))
		default:
		}
		if !strings.Contains(d.output(t), "Press Ctrl-C to stop") {
			return errNotYet
		}
		return nil
	})
	return d
}

func (d *dev) output(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(d.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pasted are the lines of the guide that are there to be pasted, make demo apart.
func (d *dev) pasted(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, line := range strings.Split(d.output(t), "\n") {
		if line = strings.TrimSpace(line); strings.Contains(line, "fencepost.v1.") ||
			strings.HasPrefix(line, "bin/fencepost ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 4 {
		t.Fatalf("%d lines to paste: %q", len(lines), lines)
	}
	return lines
}

// interrupt is Ctrl-C: the whole group gets it. Everything must be down soon, in order.
func (d *dev) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-d.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("not down 30 s after Ctrl-C:\n%s", d.output(t))
	}
	if said := d.output(t); !strings.Contains(said, "Stopping the node") ||
		strings.Contains(said, "stop failed") {
		t.Errorf("after Ctrl-C:\n%s", said)
	}
}

// killAll is kill -9 for the whole group.
func (d *dev) killAll(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-d.done
}

func bash(t *testing.T, dir, line string, environment ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out.String())
	}
	return out.String()
}

func inOrder(t *testing.T, what, out string, words ...string) {
	t.Helper()
	rest := out
	for _, w := range words {
		i := strings.Index(rest, w)
		if i < 0 {
			t.Errorf("%s: no %s in its place:\n%s", what, w, out)
			return
		}
		rest = rest[i+len(w):]
	}
}

// useIt runs the commands of "Use it" in a folder, with the README's configuration pointed at a
// real database and a real chain. It returns the commands.
func useIt(t *testing.T, root, dir string, commands []string) []string {
	t.Helper()
	if err := os.Symlink(filepath.Join(root, "bin"), filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	var done []string
	for _, line := range commands {
		switch {
		case line == "make build":
			bash(t, root, line)
		case strings.Contains(line, "key new"):
			writeFile(t, filepath.Join(dir, "fencepost.yaml"),
				readmeConfig(t, root, addressIn(t, bash(t, dir, line))))
		case strings.HasSuffix(line, "serve --config fencepost.yaml"):
			serveAndStop(t, dir, line)
		case strings.HasPrefix(line, "bin/"), strings.Contains(line, "> password"):
			bash(t, dir, line)
		default:
			continue
		}
		done = append(done, line)
	}
	return done
}

func addressIn(t *testing.T, out string) string {
	t.Helper()
	a := regexp.MustCompile(`0x[0-9a-fA-F]{40}`).FindString(out)
	if a == "" {
		t.Fatalf("no address in %q", out)
	}
	return a
}

// readmeConfig is the README's configuration for a chain that is there.
func readmeConfig(t *testing.T, root, account string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("the README has no configuration")
	}
	c := embedded(t, time.Second, 1)
	replaced := strings.NewReplacer("postgres://fencepost@db/fencepost", freshDatabase(t),
		"chain_id: 1,", fmt.Sprintf("chain_id: %d,", c.id), "https://rpc.example", c.url, "0x...",
		account).Replace(
		block[1],
	)
	return replaced
}

func serveAndStop(t *testing.T, dir, line string) {
	t.Helper()
	serving(t, dir, line, "serve.log").stop(t)
}

// serving is a node that was started as it is written, in a folder.
func serving(t *testing.T, dir, line, log string) *process {
	t.Helper()
	log = filepath.Join(dir, log)
	cmd := exec.Command("bash", "-c", "exec "+line)
	cmd.Dir = dir
	p := startProcess(t, cmd, log)
	eventually(t, 30*time.Second, "the node serves", func() error {
		text, err := os.ReadFile(log)
		if err == nil && !strings.Contains(string(text), "node serving") {
			err = errNotYet
		}
		return err
	})
	return p
}
