//go:build !unix

package sign

import "errors"

// newPage allocates memory, which cannot be locked here.
func newPage(size int) (page []byte, unlocked, err error) {
	return make([]byte, size), errors.New("not supported on this platform"), nil
}
