package fencepost_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fencepost "github.com/fencepost/fencepost/clients/go"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// external is an account of mode EXTERNAL, with a signed transaction for each of its first nonces.
type external struct {
	*testing.T
	*fencepost.Client
	name, rpc string
	signed    []string // raw, hash, raw, hash, ...
}

// openExternal reads the account that `make clients-test` provides for this language.
func openExternal(t *testing.T, o fencepost.Options) *external {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(setting(t, "EXTERNAL"), "go"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	return &external{T: t, Client: connect(t, lines[0], o), name: lines[1], rpc: lines[2],
		signed: lines[3:]}
}

// send broadcasts the transaction of a nonce, and returns its hash.
func (x *external) send(nonce uint64) string {
	x.Helper()
	body := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":[%q]}`,
		x.signed[2*nonce])
	answer, err := http.Post(x.rpc, "application/json", strings.NewReader(body))
	if err != nil {
		x.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || strings.Contains(string(text), "error") {
		x.Fatalf("send nonce %d: %s, %v", nonce, text, err)
	}
	return x.signed[2*nonce+1]
}

// sign is a handler that signs and broadcasts.
func (x *external) sign(_ context.Context, n fencepost.NonceContext) (fencepost.NonceResult,
	error) {
	return fencepost.SentTx(x.send(n.Nonce)), nil
}

func (x *external) accepted(h *fencepost.NonceHandle) {
	x.Helper()
	nonce, tx, err := h.Wait(x.Context())
	if err != nil || nonce.GetState() != pb.NonceState_NONCE_STATE_ACCEPTED || tx != nil {
		x.Fatalf("%v, %v, %v", nonce, tx, err)
	}
}

// reportLate sends and reports a transaction for a reservation that has ended.
func (x *external) reportLate(n *pb.Nonce) {
	x.Helper()
	if _, err := x.Nonces.RecordNonceHash(x.Context(), &pb.RecordNonceHashRequest{
		ReservationId: n.GetReservationId(), TxHash: x.send(n.GetNonce())}); err != nil {
		x.Fatal(err)
	}
}

// await reads a reservation until a condition holds.
func (x *external) await(id string, holds func(*pb.Nonce) bool) *pb.Nonce {
	x.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := x.Nonces.GetNonce(x.Context(), &pb.GetNonceRequest{ReservationId: id})
		if err != nil {
			x.Fatal(err)
		}
		if holds(got.GetNonce()) {
			return got.GetNonce()
		}
		select {
		case <-tick.C:
		case <-x.Context().Done():
			x.Fatalf("%v", got)
		}
	}
}

// TestReservation_EveryEnd_Reported runs in order: the chain includes the nonces of an account in
// order.
func TestReservation_EveryEnd_Reported(t *testing.T) {
	t.Parallel()
	x := openExternal(t, fencepost.Options{})
	ctx := t.Context()

	h, err := x.WithNonce(ctx, x.name, x.sign, fencepost.NonceOptions{Holder: "go"})
	if err != nil {
		t.Fatal(err)
	}
	x.accepted(h)

	fault := errors.New("not this time")
	var unsigned fencepost.NonceContext
	_, err = x.WithNonce(ctx, x.name,
		func(_ context.Context, n fencepost.NonceContext) (fencepost.NonceResult, error) {
			unsigned = n
			return fencepost.NonceResult{}, fencepost.NeverSigned(fault)
		}, fencepost.NonceOptions{})
	if !errors.Is(err, fault) {
		t.Fatal(err)
	}

	var thrown fencepost.NonceContext
	_, err = x.WithNonce(ctx, x.name,
		func(_ context.Context, n fencepost.NonceContext) (fencepost.NonceResult, error) {
			thrown = n
			return fencepost.NonceResult{}, fault
		}, fencepost.NonceOptions{})
	if !errors.Is(err, fault) || thrown.Nonce != unsigned.Nonce {
		t.Fatalf("%v; nonce %d after %d was never signed", err, thrown.Nonce, unsigned.Nonce)
	}
	n := x.await(thrown.ReservationID, func(*pb.Nonce) bool { return true })
	if n.GetState() != pb.NonceState_NONCE_STATE_PENDING {
		t.Fatalf("after an error: %v", n)
	}
	x.reportLate(n)
	x.await(thrown.ReservationID,
		func(n *pb.Nonce) bool { return n.GetState() == pb.NonceState_NONCE_STATE_ACCEPTED })

	// The process dies after the allocation.
	died, err := x.Nonces.AllocateNonce(ctx, &pb.AllocateNonceRequest{Submitter: x.name,
		RequestId: "died", Ttl: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	x.await(died.GetNonce().GetReservationId(),
		func(n *pb.Nonce) bool { return n.GetState() == pb.NonceState_NONCE_STATE_PENDING })
	h, err = x.WithNonce(ctx, x.name,
		func(context.Context, fencepost.NonceContext) (fencepost.NonceResult, error) {
			t.Error("the handler runs for an expired reservation")
			return fencepost.NonceResult{}, fault
		}, fencepost.NonceOptions{RequestID: "died"})
	if err != nil || h.Nonce().GetNonce() != died.GetNonce().GetNonce() {
		t.Fatalf("%v, %v", h, err)
	}
	x.reportLate(h.Nonce()) // it had signed, and reports late
	x.accepted(h)

	// A handler that takes longer than a TTL keeps its reservation.
	h, err = x.WithNonce(ctx, x.name,
		func(ctx context.Context, n fencepost.NonceContext) (fencepost.NonceResult, error) {
			first := x.await(n.ReservationID, func(*pb.Nonce) bool { return true })
			x.await(n.ReservationID, func(now *pb.Nonce) bool {
				return now.GetExpireTime().AsTime().After(
					first.GetExpireTime().AsTime().Add(time.Second))
			})
			return x.sign(ctx, n)
		}, fencepost.NonceOptions{TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	x.accepted(h)

	x.panics()
	x.losesReply()
	x.submits()
}

// submits checks that Fencepost broadcasts signed bytes, and that the wait lasts to finality.
func (x *external) submits() {
	x.Helper()
	var hash string
	h, err := x.WithNonce(x.Context(), x.name,
		func(_ context.Context, n fencepost.NonceContext) (fencepost.NonceResult, error) {
			hash = x.signed[2*n.Nonce+1]
			raw, err := hex.DecodeString(strings.TrimPrefix(x.signed[2*n.Nonce], "0x"))
			return fencepost.SignedTx(raw), err
		}, fencepost.NonceOptions{})
	if err != nil {
		x.Fatal(err)
	}
	nonce, tx, err := h.Wait(x.Context())
	if err != nil || nonce.GetState() != pb.NonceState_NONCE_STATE_ACCEPTED ||
		tx.GetState() != pb.TxState_TX_STATE_CONFIRMED || tx.GetTxHash() != hash ||
		tx.GetExecuted() != pb.Executed_EXECUTED_SUCCESS {
		x.Errorf("%v, %v, %v", nonce, tx, err)
	}
}

// panics checks that a panic quarantines, and continues.
func (x *external) panics() {
	x.Helper()
	var id string
	func() {
		defer func() {
			if recover() == nil {
				x.Error("the panic is swallowed")
			}
		}()
		_, _ = x.WithNonce(x.Context(), x.name,
			func(_ context.Context, n fencepost.NonceContext) (fencepost.NonceResult, error) {
				id = n.ReservationID
				panic("defect")
			}, fencepost.NonceOptions{})
	}()
	n := x.await(id, func(*pb.Nonce) bool { return true })
	if n.GetState() != pb.NonceState_NONCE_STATE_PENDING {
		x.Fatalf("after a panic: %v", n)
	}
	x.reportLate(n)
}

// losesReply checks that a reported transaction keeps its nonce if the reply is lost.
func (x *external) losesReply() {
	x.Helper()
	lossy := openExternal(x.T, fencepost.Options{Dial: []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request,
			reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
			options ...grpc.CallOption) error {
			err := invoke(ctx, method, request, reply, conn, options...)
			if strings.HasSuffix(method, "/RecordNonceHash") && err == nil {
				return status.Error(codes.Unavailable, "the reply is lost")
			}
			return err
		}),
	}})
	var id string
	_, err := lossy.WithNonce(x.Context(), x.name,
		func(ctx context.Context, n fencepost.NonceContext) (fencepost.NonceResult, error) {
			id = n.ReservationID
			return x.sign(ctx, n)
		}, fencepost.NonceOptions{})
	if err == nil {
		x.Fatal("the reply was not lost")
	}
	x.await(id,
		func(n *pb.Nonce) bool { return n.GetState() == pb.NonceState_NONCE_STATE_ACCEPTED })
}

// TestReservation_RepliesLost_SignedOnce: the scripted server loses the first reply to each call.
func TestReservation_RepliesLost_SignedOnce(t *testing.T) {
	t.Parallel()
	c, runs := scripted(t, fencepost.Options{}), 0
	h, err := c.WithNonce(t.Context(), "alice",
		func(_ context.Context, n fencepost.NonceContext) (fencepost.NonceResult, error) {
			runs++
			return fencepost.SignedTx([]byte{byte(n.Nonce)}), nil
		}, fencepost.NonceOptions{RequestID: "go"})
	if err != nil || runs != 1 || h.Nonce().GetNonce() != 7 || h.Nonce().GetTxId() == "" ||
		h.Nonce().GetState() != pb.NonceState_NONCE_STATE_PENDING {
		t.Errorf("%d runs, %v, %v", runs, h, err)
	}
}
