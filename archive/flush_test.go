package archive

import (
	"bytes"
	"errors"
	"testing"
)

// countedDisk counts the bytes that were written since the last flush.
type countedDisk struct {
	bytes.Buffer
	pending, most int
	fails         error
}

func (d *countedDisk) Write(p []byte) (int, error) {
	n, err := d.Buffer.Write(p)
	d.pending += n
	d.most = max(d.most, d.pending)
	return n, err
}

func (d *countedDisk) Sync() error {
	d.pending = 0
	return d.fails
}

func TestFlusher(t *testing.T) {
	t.Parallel()
	var d countedDisk
	f := flusher{to: &d}
	content := make([]byte, 5*flushEach+7)
	for i := range content {
		content[i] = byte(i)
	}
	parts := [][]byte{content[:3], content[3 : flushEach-1], content[flushEach-1 : flushEach],
		content[flushEach:]}
	for _, part := range parts {
		if n, err := f.Write(part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if !bytes.Equal(d.Bytes(), content) {
		t.Error("the file has other content")
	}
	if d.most > flushEach {
		t.Errorf("%d bytes waited for the disk, want at most %d", d.most, flushEach)
	}
}

func TestFlusher_DiskFails_Reported(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	f := flusher{to: &countedDisk{fails: full}}
	if n, err := f.Write(make([]byte, flushEach+1)); n != flushEach || !errors.Is(err, full) {
		t.Error(n, err)
	}
}
