package pgembed

import (
	"fmt"
	"os"
	"syscall"
)

// tieToParent makes the kernel send the signal to the child when the thread that started it ends,
// as on a kill.
func tieToParent(attr *syscall.SysProcAttr, death syscall.Signal) { attr.Pdeathsig = death }

// runsIn reports whether the process works in the folder, as a PostgreSQL server does in its data.
// A pid from before a reboot or from another container may belong to any process.
func runsIn(pid int, data string) bool {
	cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return os.IsPermission(err) // alive and of another account
	}
	dir, err := os.Stat(data)
	return err == nil && os.SameFile(cwd, dir)
}
