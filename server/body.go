package server

import (
	"compress/gzip"
	"errors"
	"io"

	"connectrpc.com/connect"
)

// errUnpacked is said of a body that is small only while it is packed.
var errUnpacked = connect.NewError(connect.CodeResourceExhausted, errors.New("the body exceeds the limit once it is unpacked"))

// inflater bounds what a packed body becomes. The transcoder bounds what comes over the wire alone, and unpacks all of it before anything else is looked at.
type inflater struct {
	gzip.Reader
	most int64 // bytes
	left int64
}

// Reset begins another body.
func (i *inflater) Reset(r io.Reader) error {
	i.left = i.most
	return i.Reader.Reset(r)
}

// Read unpacks, up to the limit.
func (i *inflater) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if i.left -= int64(n); i.left < 0 {
		return 0, errUnpacked
	}
	return n, err
}

func newDeflater() connect.Compressor { return gzip.NewWriter(io.Discard) }
