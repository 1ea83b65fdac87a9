package e2e

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRelease builds a release, and checks archive, list of components and checksums. It unpacks
// the image and runs a node of it, with nothing but the files of the image.
func TestRelease(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "release")
	build := exec.CommandContext(t.Context(), "../scripts/release", out)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("scripts/release: %v\n%s", err, text)
	}
	one := func(pattern string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		return found[0]
	}
	verifyStatic(t, filepath.Join(out, "fencepost"))
	for _, library := range signerLibraries {
		if links(t, program, library) {
			t.Errorf("a program without build tags links %s", library)
		}
		if !links(t, filepath.Join(out, "fencepost"), library) {
			t.Errorf("a release does not link %s", library)
		}
	}
	archive := filesOf(t, one("*.tar.gz"))
	for _, want := range []string{"/fencepost", "/LICENSE", "/NOTICE", "/deploy/systemd/" +
		"fencepost.service"} {
		ends := func(name string) bool { return strings.HasSuffix(name, want) }
		if !slices.ContainsFunc(archive, ends) {
			t.Errorf("the archive lacks %s: %v", want, archive)
		}
	}
	verifyComponents(t, one("*.cdx.json"))
	verifySums(t, out)
	root := unpackImage(t, filepath.Join(out, "image"))
	verifyVersion(t, root)
	runImage(t, root)
}

// signerLibraries are the libraries of signers behind build tags.
var signerLibraries = []string{
	"github.com/aws/aws-sdk-go-v2/service/kms",
	"cloud.google.com/go/kms",
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys",
}

// links reports whether a program was built with a module.
func links(t *testing.T, program, module string) bool {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module })
}

func filesOf(t *testing.T, archive string) (names []string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	eachFile(t, f, func(h *tar.Header, _ io.Reader) error {
		names = append(names, h.Name)
		return nil
	})
	return names
}

// eachFile visits the files of a compressed archive.
func eachFile(t *testing.T, r io.Reader, visit func(*tar.Header, io.Reader) error) {
	t.Helper()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = visit(h, files)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// verifyComponents checks that the list has the modules that the program links.
func verifyComponents(t *testing.T, path string) {
	t.Helper()
	var bom struct {
		BomFormat  string `json:"bomFormat"`
		Components []struct {
			Name, Version, Purl string
		} `json:"components"`
	}
	readJSON(t, path, &bom)
	if bom.BomFormat != "CycloneDX" {
		t.Errorf("the format is %q", bom.BomFormat)
	}
	for _, want := range []string{"github.com/jackc/pgx/v5", "google.golang.org/grpc"} {
		found := false
		for _, c := range bom.Components {
			found = found || c.Name == want && c.Version != "" && c.Purl != ""
		}
		if !found {
			t.Errorf("%s is not among %d components", want, len(bom.Components))
		}
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func verifySums(t *testing.T, out string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := os.ReadFile(filepath.Join(out, name))
		if got := sha256.Sum256(content); err != nil || hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s: %v, its sum is %x", line, err, got)
		}
	}
}

// descriptor is a reference in an OCI layout.
type descriptor struct {
	Digest string `json:"digest"`
}

// unpackImage unpacks the layers of the only image of a layout.
func unpackImage(t *testing.T, folder string) (root string) {
	t.Helper()
	blob := func(d descriptor) string {
		return filepath.Join(folder, "blobs", strings.ReplaceAll(d.Digest, ":", "/"))
	}
	var index struct {
		Manifests []descriptor `json:"manifests"`
	}
	readJSON(t, filepath.Join(folder, "index.json"), &index)
	var manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	readJSON(t, blob(index.Manifests[0]), &manifest)
	var config struct {
		Config struct {
			User            string
			Entrypoint, Cmd []string
		} `json:"config"`
	}
	readJSON(t, blob(manifest.Config), &config)
	if c := config.Config; c.User != "65532:65532" ||
		!slices.Equal(c.Entrypoint, []string{"/usr/local/bin/fencepost"}) || c.Cmd[0] != "serve" {
		t.Errorf("the configuration is %v", c)
	}
	root = t.TempDir()
	for _, layer := range manifest.Layers {
		f, err := os.Open(blob(layer))
		if err != nil {
			t.Fatal(err)
		}
		eachFile(t, f, func(h *tar.Header, content io.Reader) error {
			path := filepath.Join(root, h.Name)
			if h.Typeflag == tar.TypeDir {
				return os.MkdirAll(path, 0o755)
			}
			text, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			return os.WriteFile(path, text, h.FileInfo().Mode())
		})
		_ = f.Close()
	}
	return root
}

// imageUser is the user of the image.
const imageUser = 65532

// inImage is a command that sees only the files of an image, and runs as its user. The files belong
// to root, if this process may decide that.
func inImage(root string, args ...string) *exec.Cmd {
	command := exec.Command("/usr/local/bin/fencepost", args...)
	command.Dir = "/"
	command.Env = []string{"PATH=/usr/local/bin"}
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	if os.Geteuid() == 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: imageUser, Gid: imageUser}
		return command
	}
	own := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: imageUser, HostID: id, Size: 1}}
	}
	command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
	command.SysProcAttr.UidMappings = own(os.Getuid())
	command.SysProcAttr.GidMappings = own(os.Getgid())
	return command
}

func verifyVersion(t *testing.T, root string) {
	t.Helper()
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := inImage(root, "version", "--json").Output()
	if err != nil {
		t.Fatalf("version: %v", err)
	}
	var version struct{ Version, Commit string }
	if err := json.Unmarshal(text, &version); err != nil ||
		version.Commit != strings.TrimSpace(string(commit)) || version.Version == "" ||
		version.Version == "(devel)" {
		t.Errorf("version is %s, want commit %s", text, commit)
	}
}

// linkSocket links the socket of a database into the folder of an image, and returns its URL there.
func linkSocket(t *testing.T, database, root string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	name := ".s.PGSQL." + cmp.Or(query.Get("port"), "5432")
	socket := filepath.Join(root, "tmp", name)
	if err := os.Link(filepath.Join(query.Get("host"), name), socket); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // the server admits only its own user otherwise
		if err := os.Chmod(socket, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	query.Set("host", "/tmp")
	u.RawQuery = query.Encode()
	return u.String()
}

// giveTo makes files readable by the group of a user only.
func giveTo(t *testing.T, folder string, user int) {
	t.Helper()
	if err := filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o440)
		if info.IsDir() {
			mode = 0o550
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
		return os.Lchown(path, 0, user)
	}); err != nil {
		t.Fatal(err)
	}
}

// verifyUser checks that a process runs as the user of the image, without capabilities.
func verifyUser(t *testing.T, pid int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return // its user is this one, outside its namespace
	}
	for _, want := range []string{
		"\nUid:\t65532\t65532\t65532\t65532\n", "\nGid:\t65532\t65532\t65532\t65532\n",
		"\nCapEff:\t0000000000000000\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the node runs without %q:\n%s", want, text)
		}
	}
}

// runImage runs a node of the image until a transaction is final.
func runImage(t *testing.T, root string) {
	t.Helper()
	c := embedded(t, 100*time.Millisecond, 1)
	database := freshDatabase(t)
	n := prepareNode(t, c, nodeOptions{
		confirmations: 1, poll: 50 * time.Millisecond, keys: filepath.Join(root, "etc/keys"),
	}, database)
	saveKeys(t, filepath.Join(root, "etc/keys"), c)
	text, err := os.ReadFile(n.config)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "etc/fencepost/fencepost.yaml"),
		strings.NewReplacer(filepath.Join(root, "etc/keys"), "/etc/keys",
			database, linkSocket(t, database, root)).Replace(string(text)))
	writeFile(t, filepath.Join(root, "etc/fencepost/password"), password)
	secrets := filepath.Join(root, "etc", "keys")
	if os.Geteuid() == 0 { // as a container gets them: readable by its user, writable by none
		giveTo(t, secrets, imageUser)
		giveTo(t, filepath.Join(root, "etc/fencepost"), imageUser)
	}
	n.migrate(t)
	n.proc = startProcess(t, inImage(root, "serve", "--config", "/etc/fencepost/fencepost.yaml"),
		filepath.Join(n.dir, "node.log"))
	eventually(t, time.Minute, "the node of the image serves", func() error {
		response, err := http.Get("http://" + n.ops + "/readyz")
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", response.Status)
		}
		return nil
	})
	verifyUser(t, n.proc.cmd.Process.Pid)
	tx := n.create(t, n.names[0], "image", transfer)
	n.await(t, tx.GetTxId(), time.Minute)
	n.proc.stop(t)
}
