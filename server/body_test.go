package server

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"runtime"
	"testing"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// A small body that unpacks to a large one costs no more than a large one. Not parallel: it counts what the process allocates.
func TestPackedBodyIsBounded(t *testing.T) {
	k := newKit(t)
	n := k.serve()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 200 {
		_, err := z.Write(make([]byte, 1<<20))
		k.must(err)
	}
	k.must(z.Close())
	for path, kind := range map[string]string{"/api/v1/tx": "application/json", pb.TxService_CreateTx_FullMethodName: "application/proto"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := n.http("POST", path, packed.String(), "Content-Type", kind, "Content-Encoding", "gzip", "Connect-Protocol-Version", "1")
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 || a.code < http.StatusBadRequest {
			t.Errorf("%s: a body of %d bytes costs %d MiB, and is answered %d %s", path, packed.Len(), used>>20, a.code, a.body)
		}
	}
}
