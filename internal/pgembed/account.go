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

// account is whom the server runs as.
type account struct {
	uid, gid uint32
	drop     bool // we are root and must become it
}

func self() account {
	return account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
}

// serverAccount is the current one, and for root one that PostgreSQL accepts.
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
	return account{uid: 65534, gid: 65534, drop: true} // nobody, on a system that names no accounts
}

// String names the account as the system's tools do.
func (a account) String() string {
	if u, err := user.LookupId(strconv.FormatUint(uint64(a.uid), 10)); err == nil {
		return "user " + u.Username
	}
	return fmt.Sprintf("user id %d", a.uid)
}

// own hands a file to the account when we are not it.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// command is a program run by the account in dir. It inherits no setting of a
// PostgreSQL client or server from our environment.
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

// attributes are those of a child that gets death when our thread ends. Its own
// process group keeps it out of a terminal's Ctrl-C: we end it ourselves, in order.
func (a account) attributes(death syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.drop {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	tieToParent(attr, death)
	return attr
}

// blockedAt is the first existing folder on the way to dir, dir included, that
// the account may not enter; it is empty when there is none.
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

// ReachableDir is wanted itself when the account that the server will run as can
// get there, and otherwise a folder under /var/lib that stands for it. The two
// differ only for root, whose own folders are closed to others.
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
