package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEvents_TryIt follows "Try it" of docs/events.md. It does not run beside tests that use the
// ports of `make run`.
func TestEvents_TryIt(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	text := section(t, documentOf(t, root, "docs/events.md"), "## Try it")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("the section has %d blocks of commands", len(blocks))
	}
	terminal := func(name, block string) (p *process, output func() string) {
		cmd, log := exec.Command("bash", "-euc", block), filepath.Join(t.TempDir(), name)
		cmd.Dir = root
		return startGroup(t, cmd, log), func() string {
			said, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			return string(said)
		}
	}
	says := func(output func() string, word string) {
		eventually(t, 2*time.Minute, word, func() error {
			if !strings.Contains(output(), word) {
				return errNotYet
			}
			return nil
		})
	}
	dev := startDev(t, root, "make run")
	_, received := terminal("receiver.log", blocks[0][1])
	eventually(t, 2*time.Minute, "the receiver listens", func() error {
		c, err := net.Dial("tcp", "127.0.0.1:8099")
		if err != nil {
			return err
		}
		return c.Close()
	})
	second, log := terminal("node.log", blocks[1][1])
	says(log, "node serving")
	for _, line := range dev.pasted(t) {
		if strings.Contains(line, "--watch") {
			id := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindString(
				bash(t, root, line))
			says(received, id+"/5 dev.fencepost.tx.confirmed")
		}
	}
	if list := bash(t, root, "bin/fencepost sink list"); !strings.Contains(list, "local") {
		t.Errorf("sink list:\n%s", list)
	}
	if err := syscall.Kill(-second.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-second.done
	dev.interrupt(t)
}
