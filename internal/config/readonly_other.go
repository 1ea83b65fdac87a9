//go:build !linux

package config

// readOnly reports whether a file is in a file system that is mounted read-only.
func readOnly(string) bool { return false }
