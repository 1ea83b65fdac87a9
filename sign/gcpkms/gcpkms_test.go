package gcpkms_test

import (
	"context"
	"encoding/pem"
	"hash/crc32"
	"net"
	"sync"
	"testing"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/gcpkms"
	"github.com/fencepost/fencepost/sign/signtest"
)

const key = "projects/p/locations/l/keyRings/r/cryptoKeys/account/cryptoKeyVersions/1"

// The client is the real one, and the server speaks the protocol of Cloud KMS.
func TestSuite(t *testing.T) {
	t.Parallel()
	signtest.Run(t, signtest.Subject{
		Digests: true,
		Open: func(t *testing.T, s *signtest.Script) sign.Holder {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			p := &peer{script: s, listener: &connections{Listener: l}}
			g := grpc.NewServer()
			kmspb.RegisterKeyManagementServiceServer(g, p)
			go func() { _ = g.Serve(p.listener) }()
			t.Cleanup(g.Stop)
			d, err := gcpkms.Open(t.Context(), gcpkms.Options{Client: []option.ClientOption{
				option.WithEndpoint(l.Addr().String()),
				option.WithoutAuthentication(),
				option.WithGRPCDialOption(
					grpc.WithTransportCredentials(insecure.NewCredentials())),
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			return sign.NewDigestHolder(d, signtest.Keys(t, true, key))
		},
	})
}

// peer is a Cloud KMS that behaves as a script.
type peer struct {
	kmspb.UnimplementedKeyManagementServiceServer
	script   *signtest.Script
	listener *connections
}

func (p *peer) fail(ctx context.Context, name string) error {
	switch fault := p.script.Fault(); {
	case name != key, fault == signtest.Missing:
		return status.Error(codes.NotFound, "CryptoKeyVersion not found")
	case fault == signtest.Hangs:
		p.script.Hang(ctx)
		return status.Error(codes.Canceled, "the client has left")
	case fault == signtest.Throttled:
		return status.Error(codes.ResourceExhausted, "quota")
	case fault == signtest.Broken:
		return status.Error(codes.Internal, "broken")
	case fault == signtest.Denied:
		return status.Error(codes.PermissionDenied, "denied")
	case fault == signtest.Reset:
		p.listener.reset()
		return status.Error(codes.Unavailable, "going away")
	}
	return nil
}

func checksum(data []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))))
}

func (p *peer) GetPublicKey(ctx context.Context,
	r *kmspb.GetPublicKeyRequest) (*kmspb.PublicKey, error) {
	if err := p.fail(ctx, r.GetName()); err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: p.script.SPKI()})
	return &kmspb.PublicKey{Name: r.GetName(), Pem: string(text), PemCrc32C: checksum(text),
		Algorithm: kmspb.CryptoKeyVersion_EC_SIGN_SECP256K1_SHA256}, nil
}

func (p *peer) AsymmetricSign(ctx context.Context,
	r *kmspb.AsymmetricSignRequest) (*kmspb.AsymmetricSignResponse, error) {
	if err := p.fail(ctx, r.GetName()); err != nil {
		return nil, err
	}
	digest := r.GetDigest().GetSha256()
	if len(digest) != 32 || r.GetDigestCrc32C().GetValue() != checksum(digest).GetValue() {
		return nil, status.Error(codes.InvalidArgument, "digest")
	}
	signature := p.script.DER(digest)
	return &kmspb.AsymmetricSignResponse{Name: r.GetName(), Signature: signature,
		SignatureCrc32C: checksum(signature), VerifiedDigestCrc32C: true}, nil
}

// connections can be reset.
type connections struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = append(c.open, conn)
	}
	return conn, err
}

func (c *connections) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // closes with RST
		}
		_ = conn.Close()
	}
	c.open = nil
}
