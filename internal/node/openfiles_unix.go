//go:build unix

package node

import "syscall"

// openFiles returns how many files the process may open.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultOpenFiles
	}
	return int(min(limit.Cur, 1<<30))
}

// defaultOpenFiles is assumed if the limit cannot be read.
const defaultOpenFiles = 1024
