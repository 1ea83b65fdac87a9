package pgembed

import (
	"fmt"
	"os"
	"syscall"
)

// tieToParent makes the kernel send death to the child when the thread that
// started it ends, as it does when we are killed.
func tieToParent(attr *syscall.SysProcAttr, death syscall.Signal) { attr.Pdeathsig = death }

// runsIn says whether the process works in the folder, as a PostgreSQL server
// does in its data. A pid from before a reboot or from another container may
// belong to anybody by now.
func runsIn(pid int, data string) bool {
	cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return os.IsPermission(err) // alive and not ours to look at
	}
	dir, err := os.Stat(data)
	return err == nil && os.SameFile(cwd, dir)
}
