//go:build unix

package sign

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// newPage maps memory and locks it. The second result is why it could not be locked.
func newPage(size int) (page []byte, unlocked, err error) {
	page, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("map memory for keys: %w", err)
	}
	leaveOut(page)
	return page, unix.Mlock(page), nil
}
