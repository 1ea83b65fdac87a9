package sign

import "golang.org/x/sys/unix"

// leaveOut leaves memory out of core dumps and out of child processes.
func leaveOut(page []byte) {
	_ = unix.Madvise(page, unix.MADV_DONTDUMP) // older kernels lack it
	_ = unix.Madvise(page, unix.MADV_DONTFORK)
}
