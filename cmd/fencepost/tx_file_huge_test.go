package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// accepting is a node that accepts every row and keeps none. It measures the memory that is in use
// while the first and the last tenth of the rows arrive.
type accepting struct {
	pb.UnimplementedTxServiceServer
	total, rows int
	early, late uint64 // bytes in use
}

// BatchCreateTx accepts all requests. The command sends one batch at a time.
func (a *accepting) BatchCreateTx(_ context.Context,
	r *pb.BatchCreateTxRequest) (*pb.BatchCreateTxResponse, error) {
	answer := &pb.BatchCreateTxResponse{}
	for range r.GetRequests() {
		a.rows++
		var id uuid.UUID
		binary.BigEndian.PutUint64(id[:], uint64(a.rows))
		answer.Results = append(answer.Results, &pb.BatchCreateTxResult{
			Created: true,
			Result: &pb.BatchCreateTxResult_Tx{
				Tx: &pb.Tx{TxId: id.String(), State: pb.TxState_TX_STATE_QUEUED},
			},
		})
	}
	switch {
	case a.early == 0 && a.rows >= a.total/10:
		a.early = inUse()
	case a.late == 0 && a.rows >= a.total*9/10:
		a.late = inUse()
	}
	return answer, nil
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestTxCreate_FromFile_MillionRows_FlatMemory is not parallel: it measures the process.
func TestTxCreate_FromFile_MillionRows_FlatMemory(t *testing.T) {
	a := &accepting{total: maxFileRows / hugeShare}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node := grpc.NewServer()
	pb.RegisterTxServiceServer(node, a)
	go func() { _ = node.Serve(listener) }()
	t.Cleanup(node.Stop)
	path := filepath.Join(t.TempDir(), "huge.csv")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	to := bufio.NewWriter(f)
	fmt.Fprintln(to, "id,to,value,label:batch")
	for i := range a.total {
		fmt.Fprintf(to, "pay-%d,%s,%dwei,november\n", i, recipient, i)
	}
	if to.Flush() != nil || f.Close() != nil {
		t.Fatal("the file is not written")
	}
	before := inUse()
	out, errs, code := newShell(t).run("tx", "create", "--submitter", "alice", "--from-file", path,
		"--server", listener.Addr().String())
	if code != exitDone || !strings.Contains(out, fmt.Sprint(a.total)) || a.rows != a.total {
		t.Fatalf("gave %d, %d rows arrived: %s%s", code, a.rows, out, errs)
	}
	const perRow, fixed = 64, 8 << 20
	if limit := before + uint64(perRow*a.total) + fixed; a.early > limit || a.late > limit {
		t.Errorf("%d, then %d bytes in use, want at most %d", a.early, a.late, limit)
	}
	if a.late > a.early+fixed {
		t.Errorf("memory grows while rows are sent: from %d to %d bytes", a.early, a.late)
	}
	t.Logf("%d rows: %d bytes before, then %d and %d", a.total, before, a.early, a.late)
}
