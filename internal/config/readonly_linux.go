package config

import "golang.org/x/sys/unix"

// readOnly reports whether a file is in a file system that is mounted read-only, such as the
// volume of a secret in Kubernetes, whose permissions allow everyone to write.
func readOnly(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}
