package config

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A folder that everyone may write to is a risk, unless it is mounted read-only, as the volume of a
// secret in Kubernetes is. The test runs again in namespaces of its own, where it may mount.
func TestWritableRisk_ReadOnlyMount(t *testing.T) {
	if dir := os.Getenv("FENCEPOST_TEST_MOUNTED"); dir != "" {
		if risks := writableRisk("key", dir); len(risks) > 0 {
			t.Errorf("mounted read-only: %v", risks)
		}
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if risks := writableRisk("key", dir); len(risks) != 1 {
		t.Errorf("writable: %v", risks)
	}
	const script = `mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" \
		-test.run '^TestWritableRisk_ReadOnlyMount$'`
	c := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--mount", "sh", "-c",
		script, "sh", dir, os.Args[0])
	c.Env = append(os.Environ(), "FENCEPOST_TEST_MOUNTED="+dir)
	out, err := c.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "--- FAIL") {
		t.Logf("cannot mount here: %v: %s", err, out)
	} else if err != nil {
		t.Errorf("%s", out)
	}
}
