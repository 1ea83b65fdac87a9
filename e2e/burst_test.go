package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	fencepostv1 "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// mostResident is the largest memory a node may use in TestBurst_BoundedMemory: 1,024 calls
// (grpc.max_calls) of 126 KiB, each held raw and decoded, doubled for uncollected garbage, plus a
// tenth for everything else.
const mostResident = 1024 * (126 << 10) * 2 * 2 * 11 / 10

// The ledger does not respond, and clients send far more than a node can hold. The node rejects the
// excess with a time to retry, stays within its limits, and continues when the ledger is back.
func TestBurst_BoundedMemory(t *testing.T) {
	t.Parallel()
	c := embedded(t, time.Second, 1)
	n := newNode(t, c, nodeOptions{confirmations: 2, poll: 200 * time.Millisecond})
	n.create(t, "s00", "before", transfer)

	holder, err := pgx.Connect(t.Context(), n.url)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	for _, sql := range []string{"BEGIN", "LOCK TABLE managed_tx IN ACCESS EXCLUSIVE MODE"} {
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	const calls, connections = 6000, 6 // 740 MiB of call data
	data := encode(
		t,
		&fencepostv1.CreateTxRequest{
			Payload: &fencepostv1.Payload{Data: bytes.Repeat([]byte{7}, 126<<10)},
		},
	)
	var mu sync.Mutex
	answers := map[string]int{}
	var all sync.WaitGroup
	for i := range connections {
		conn, err := grpc.NewClient(n.addr,
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for j := range calls / connections {
			request := encode(
				t,
				&fencepostv1.CreateTxRequest{
					Submitter: "s00",
					RequestId: fmt.Sprint("burst/", i, "/", j),
					Payload:   &fencepostv1.Payload{To: transfer.To},
				},
			)
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
				defer cancel()
				err := conn.Invoke(ctx, fencepostv1.TxService_CreateTx_FullMethodName,
					mem.BufferSlice{request, data}, new(fencepostv1.CreateTxResponse),
					grpc.ForceCodecV2(encoded{encoding.GetCodecV2(proto.Name)}))
				mu.Lock()
				defer mu.Unlock()
				answers[status.Code(err).String()]++
			})
		}
	}
	all.Wait()
	peak := n.peak(t)
	if answers[codes.ResourceExhausted.String()] == 0 || answers[codes.OK.String()] > 0 ||
		peak > mostResident {
		t.Errorf("answers: %v, at most %d MiB resident, want %d MiB and refusals", answers,
			peak>>20, mostResident>>20)
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the node takes transactions again", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := n.CreateTx(ctx,
			&fencepostv1.CreateTxRequest{Submitter: "s00", RequestId: "after", Payload: transfer})
		return err
	})
}

// encoded is a codec for requests that are encoded already: callers by the thousand share their
// call data, or it is the test that fills the machine. One message after the other is both of them
// merged.
type encoded struct{ encoding.CodecV2 }

func (encoded) Marshal(request any) (mem.BufferSlice, error) {
	return request.(mem.BufferSlice), nil
}

func encode(t *testing.T, part *fencepostv1.CreateTxRequest) mem.Buffer {
	t.Helper()
	text, err := protobuf.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	return mem.SliceBuffer(text)
}

// peak is the most memory that the process has had resident, in bytes.
func (n *node) peak(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.proc.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(line)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
