//go:build !linux

package pgembed

import "syscall"

// tieToParent can do nothing here: a server whose parent is killed stays, and
// the next start names its pid.
func tieToParent(*syscall.SysProcAttr, syscall.Signal) {}

// runsIn cannot tell, and takes a live process for the server.
func runsIn(int, string) bool { return true }
