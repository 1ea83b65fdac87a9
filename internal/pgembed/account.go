package pgembed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// account is the operating system user of the server.
type account struct {
	uid, gid uint32
	drop     bool // we are root and must switch to it
}

func self() account {
	return account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
}

// serverAccount returns the current account; for root, one that PostgreSQL accepts.
func serverAccount() account {
	if !osRoot() {
		return self()
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{uid: uint32(uid), gid: uint32(gid), drop: true}
		}
	}
	return account{uid: 65534, gid: 65534, drop: true} // the overflow id: no account names here
}

// String returns the account's name, or its ids.
func (a account) String() string {
	if u, err := user.LookupId(strconv.FormatUint(uint64(a.uid), 10)); err == nil {
		return "user " + u.Username
	}
	return fmt.Sprintf("user id %d", a.uid)
}

// own makes the account the owner of a file.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// command returns a command that runs as the account in dir. PostgreSQL variables of our
// environment are removed.
func (a account) command(ctx context.Context, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	if lib, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+lib)
	}
	cmd.SysProcAttr = a.attributes(syscall.SIGKILL)
	cmd.WaitDelay = time.Second
	return cmd
}

// attributes are those of a child that gets the death signal when our thread ends. Its own process
// group keeps Ctrl-C from it: we stop it in order.
func (a account) attributes(death syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.drop {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	tieToParent(attr, death)
	return attr
}

// blockedAt returns the first existing folder on the path to dir, dir included, that the account
// may not enter; empty if there is none.
func (a account) blockedAt(dir string) string {
	path := "/"
	for _, name := range append([]string{""}, strings.Split(strings.Trim(dir, "/"), "/")...) {
		path = filepath.Join(path, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		if err != nil || !a.mayEnter(info) {
			return path
		}
	}
	return ""
}

func (a account) mayEnter(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || a.uid == 0 {
		return true
	}
	bit := fs.FileMode(0o001)
	switch {
	case st.Uid == a.uid:
		bit = 0o100
	case st.Gid == a.gid:
		bit = 0o010
	}
	return info.Mode()&bit != 0
}

// ReachableDir returns wanted if the account of the server can reach it, and otherwise a folder
// under /var/lib derived from it. They differ only for root, whose own folders are closed to
// others.
func ReachableDir(wanted string) string {
	abs, err := filepath.Abs(wanted)
	if err != nil || serverAccount().blockedAt(abs) == "" {
		return wanted
	}
	return filepath.Join("/var/lib/fencepost", filepath.Base(abs)+"-"+shortHash(abs))
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}
