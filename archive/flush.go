package archive

import "io"

// flushEach is how many bytes of a file may wait for the disk.
const flushEach = 1 << 20

// disk is a file, or stands for one.
type disk interface {
	io.Writer
	Sync() error
}

// flusher writes to a file and flushes it steadily. Flushed at its end, a whole file would hold up
// the commits of a ledger on the same disk.
type flusher struct {
	to      disk
	pending int
}

func (f *flusher) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		n, err := f.to.Write(p[:min(len(p), flushEach-f.pending)])
		written += n
		f.pending += n
		p = p[n:]
		if err != nil {
			return written, err
		}
		if f.pending == flushEach {
			if err := f.to.Sync(); err != nil {
				return written, err
			}
			f.pending = 0
		}
	}
	return written, nil
}
