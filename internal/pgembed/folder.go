package pgembed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
)

const (
	// socketLimit is the maximum length of a socket's path in bytes: 107 on Linux, 103 on the BSDs.
	// The smaller one keeps a folder portable.
	socketLimit = 103
	tempPrefix  = "fencepost-pg-"
	// abandonedAfter protects a folder that another start has made and not locked yet from the
	// sweep.
	abandonedAfter = time.Hour
)

// folder is the storage of a server, locked by this process until close.
type folder struct {
	path    string
	socket  string // folder of the socket
	account account
	temp    bool
	lock    *os.File
}

// openFolder creates and locks a folder; an empty path means a temporary one.
func openFolder(ctx context.Context, path string) (*folder, error) {
	f := &folder{path: path, account: serverAccount()}
	if err := f.makePath(); err != nil {
		return nil, err
	}
	if err := f.acquire(ctx); err != nil {
		return nil, err
	}
	if err := f.settle(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// makePath creates the folder itself. Other users may traverse it, but not list it; the data are
// accessible to their owner only.
func (f *folder) makePath() (err error) {
	if f.path == "" {
		sweep()
		f.temp = true
		f.path, err = os.MkdirTemp("", tempPrefix)
		if err != nil {
			return err
		}
		return os.Chmod(f.path, 0o711)
	}
	if f.path, err = filepath.Abs(f.path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	err = os.Mkdir(f.path, 0o711)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(f.path, 0o711) // independent of the umask
}

// acquire locks the folder; the system releases the lock when the process ends.
func (f *folder) acquire(ctx context.Context) (err error) {
	f.lock, err = os.OpenFile(filepath.Join(f.path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := poll(ctx, foreignLimit, func() bool { return tryLock(f.lock) }); err != nil {
		defer f.lock.Close()
		if ctx.Err() != nil {
			return err
		}
		holder, _ := os.ReadFile(f.lock.Name())
		return fmt.Errorf(
			"the process with pid %s already runs a PostgreSQL in %s: stop it, or choose another "+
				"folder",
			strings.TrimSpace(string(holder)), f.path)
	}
	return errors.Join(f.lock.Truncate(0), writeAt(f.lock, strconv.Itoa(os.Getpid())+"\n"))
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

func tryLock(file *os.File) bool {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// settle determines the server's account and the folder of its socket.
func (f *folder) settle() error {
	info, err := os.Stat(f.data())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := f.adopt(info); err != nil {
			return err
		}
	}
	if at := f.account.blockedAt(f.path); at != "" {
		return fmt.Errorf(
			"PostgreSQL runs as %s, who may not enter %s: allow it (chmod o+x %s), or choose a "+
				"folder elsewhere than %s",
			f.account, at, at, f.path)
	}
	f.socket = filepath.Join(f.path, "sock")
	if len(socketPath(f.socket, 65535)) > socketLimit {
		f.socket = shortSocket(f.path)
	}
	return nil
}

// adopt makes the owner of the data the account of the server.
func (f *folder) adopt(data fs.FileInfo) error {
	st, ok := data.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	owner := account{uid: st.Uid, gid: st.Gid, drop: osRoot()}
	if osRoot() && owner.uid != 0 {
		f.account = owner
		return nil
	}
	if owner.uid == f.account.uid {
		return nil
	}
	return fmt.Errorf(
		"the data in %s belong to %s and the server would run as %s: give them over (chown), or "+
			"choose another folder",
		f.path, owner, f.account)
}

func (f *folder) data() string    { return filepath.Join(f.path, "data") }
func (f *folder) logFile() string { return filepath.Join(f.path, "postgres.log") }

// major returns the version of the data; 0 if there are none.
func (f *folder) major() (int, error) {
	text, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		// An empty folder may be a mount point or prepared by the user. Other content is never
		// removed.
		if err := os.Remove(f.data()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf(
				"%s is not the data of a PostgreSQL: remove it, or choose another folder", f.data())
		}
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n := number(string(text))
	if n == 0 {
		return 0, fmt.Errorf("%s/PG_VERSION names no version: remove %s to start again", f.data(),
			f.path)
	}
	return n, nil
}

// prepare creates the socket's folder, and the data on first use.
func (f *folder) prepare(ctx context.Context, p Programs, disposable bool) error {
	if err := f.ownFolder(f.socket); err != nil {
		return err
	}
	if _, err := os.Stat(f.data()); err == nil {
		return nil
	}
	fresh := f.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil { // left by an interrupted initdb
		return err
	}
	if err := f.ownFolder(fresh); err != nil {
		return err
	}
	if err := f.initdb(ctx, p, fresh, disposable); err != nil {
		return err
	}
	return os.Rename(fresh, f.data())
}

// ownFolder makes a folder that only the server's account may use. An existing one must belong to
// that account: in a world-writable folder, another user may have created it.
func (f *folder) ownFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	if err == nil {
		return f.account.own(path)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || ok && st.Uid != f.account.uid || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a private folder of %s: remove it", path, f.account)
	}
	return nil
}

// initdb creates a cluster that sorts text by bytes, the same on every system.
func (f *folder) initdb(ctx context.Context, p Programs, into string, disposable bool) error {
	password := rand.Text()
	if err := os.WriteFile(filepath.Join(f.path, "password"), []byte(password), 0o600); err != nil {
		return err
	}
	file := filepath.Join(f.socket, "password") // readable by the account, and removed after initdb
	if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
		return err
	}
	defer os.Remove(file)
	if err := f.account.own(file); err != nil {
		return err
	}
	args := []string{
		"-D", into, "-U", superuser, "-E", "UTF8", "--locale=C", "--no-instructions",
		"--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile=" + file,
	}
	if disposable {
		args = append(args, "--no-sync")
	}
	out, err := f.account.command(
		ctx,
		f.path,
		filepath.Join(p.Dir, "initdb"),
		args...).CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("initdb in %s: %w: %s", f.path, err, lastLines(string(out)))
	}
	return nil
}

func (f *folder) password() (string, error) {
	file := filepath.Join(f.path, "password")
	text, err := os.ReadFile(file)
	if err != nil || len(text) == 0 {
		return "", fmt.Errorf(
			"the password for TCP is missing from %s: use the socket, or remove %s to start again",
			file, f.path)
	}
	return string(text), nil
}

// close releases the folder, and removes a temporary one.
func (f *folder) close() error {
	var errs []error
	if f.socket != "" && filepath.Dir(f.socket) != f.path {
		errs = append(errs, os.RemoveAll(f.socket))
	}
	if f.temp {
		errs = append(errs, os.RemoveAll(f.path))
	}
	return errors.Join(append(errs, f.lock.Close())...)
}

func socketPath(dir string, port int) string {
	return filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(port))
}

// shortSocket returns a folder derived from the path, so that a printed address stays valid over
// restarts.
func shortSocket(path string) string {
	name := "fencepost-" + shortHash(path)
	if dir := filepath.Join(os.TempDir(), name); len(socketPath(dir, 65535)) <= socketLimit {
		return dir
	}
	return filepath.Join("/tmp", name)
}

// sweep removes temporary folders that killed processes left behind.
func sweep() {
	old := clock.Real{}.Now().Add(-abandonedAfter)
	locks, _ := filepath.Glob(
		filepath.Join(os.TempDir(), tempPrefix+"*", "lock")) // the pattern is well formed
	for _, path := range locks {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() ||
			info.ModTime().After(old) {
			continue
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // locked by another process
		}
		dir := filepath.Dir(path)
		if tryLock(file) && readPIDFile(filepath.Join(dir, "data")).server() == 0 {
			os.RemoveAll(dir) // the next sweep tries again
		}
		file.Close()
	}
}
