package port

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthsrv "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/fencepost/fencepost/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// both is a port with a server on either side.
type both struct {
	address string
	auth    func() credentials.AuthInfo // of the last call
}

func serve(t *testing.T, o Options) *both {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Patience == 0 {
		o.Patience = 20 * time.Second
	}
	o.Clock = clock.Real{}
	split := New(listener, o)
	b := &both{address: listener.Addr().String()}
	var mu sync.Mutex
	var last credentials.AuthInfo
	b.auth = func() credentials.AuthInfo { mu.Lock(); defer mu.Unlock(); return last }
	options := []grpc.ServerOption{
		grpc.UnaryInterceptor(
			func(ctx context.Context, r any, _ *grpc.UnaryServerInfo,
				handler grpc.UnaryHandler) (any, error) {
				p, _ := peer.FromContext(ctx)
				mu.Lock()
				last = p.AuthInfo
				mu.Unlock()
				return handler(ctx, r)
			},
		),
	}
	if o.TLS != nil {
		options = append(options, grpc.Creds(Received{}))
	}
	native := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(native, healthsrv.NewServer())
	plain := &http.Server{
		Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, "%s %s", r.Proto,
					r.URL.Path)
			}),
	}
	plain.Protocols = new(http.Protocols)
	plain.Protocols.SetHTTP1(true)
	plain.Protocols.SetUnencryptedHTTP2(true)
	var running sync.WaitGroup
	running.Go(func() { native.Serve(split.GRPC()) })
	running.Go(func() { plain.Serve(split.HTTP()) })
	running.Go(func() {
		if err := split.Run(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		split.Close()
		native.Stop()
		plain.Close()
		running.Wait()
	})
	return b
}

func (b *both) check(t *testing.T, c credentials.TransportCredentials) {
	t.Helper()
	conn, err := grpc.NewClient(b.address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		if _, err := healthpb.NewHealthClient(conn).Check(t.Context(),
			&healthpb.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, transport *http.Transport, url string) string {
	t.Helper()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	body := ""
	for range 3 { // the later ones on the connection of the first
		r, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		body = string(all)
	}
	return body
}

func h2c() *http.Transport {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: p}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	b := serve(t, Options{})
	b.check(t, insecure.NewCredentials())
	if got := get(t, &http.Transport{}, "http://"+b.address+"/a"); got != "HTTP/1.1 /a" {
		t.Errorf("over HTTP/1.1: %q", got)
	}
	if got := get(t, h2c(), "http://"+b.address+"/b"); got != "HTTP/2.0 /b" {
		t.Errorf("over HTTP/2: %q", got)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, pool := certificate(t)
	b := serve(t, Options{TLS: &tls.Config{
		Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"},
	}})
	b.check(t, credentials.NewClientTLSFromCert(pool, "localhost"))
	if info, ok := b.auth().(credentials.TLSInfo); !ok || info.State.NegotiatedProtocol != "h2" {
		t.Errorf("gRPC gets %v of the handshake", b.auth())
	}
	for name, c := range map[string]struct {
		protocols []string
		want      string
	}{
		"HTTP/1.1":     {[]string{"http/1.1"}, "HTTP/1.1 /"},
		"HTTP/2":       {[]string{"h2", "http/1.1"}, "HTTP/2.0 /"},
		"without ALPN": {nil, "HTTP/1.1 /"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{
				RootCAs: pool, ServerName: "localhost", NextProtos: c.protocols,
			}
			transport := &http.Transport{
				TLSClientConfig: config, ForceAttemptHTTP2: len(c.protocols) > 1,
			}
			if got := get(t, transport, "https://"+b.address+"/"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	conn, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	if response, err := io.ReadAll(conn); err == nil &&
		bytes.HasPrefix(response, []byte("HTTP/1.1 200")) {
		t.Errorf("plain text is served: %q", response)
	}
}

func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		DNSNames:              []string{"localhost"},
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// opening is the start of an HTTP/2 connection, as clients send it.
type opening struct {
	bytes  bytes.Buffer
	framer *http2.Framer
}

func open() *opening {
	o := &opening{}
	o.bytes.WriteString(http2.ClientPreface)
	o.framer = http2.NewFramer(&o.bytes, nil)
	o.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	o.framer.WriteWindowUpdate(0, 1<<20)
	return o
}

func (o *opening) sent() []byte { return o.bytes.Bytes() }

// raw writes a frame of a length.
func (o *opening) raw(kind http2.FrameType, length int) *opening {
	o.framer.WriteRawFrame(kind, 0, 0, make([]byte, length))
	return o
}

// fields writes a request with these headers.
func (o *opening) fields(all ...[2]string) *opening {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range all {
		e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	o.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
	})
	return o
}

// request writes a request; in parts of so many bytes of its headers.
func (o *opening) request(contentType string, part int) *opening {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "a"},
		{":path", "/p"}, {"content-type", contentType}, {"x", strings.Repeat("x", 100)}} {
		e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	all := block.Bytes()
	first := min(part, len(all))
	o.framer.WriteHeaders(
		http2.HeadersFrameParam{
			StreamID:      1,
			BlockFragment: all[:first],
			EndStream:     true,
			EndHeaders:    first == len(all),
		},
	)
	for all = all[first:]; len(all) > 0; all = all[min(part, len(all)):] {
		o.framer.WriteContinuation(1, len(all) <= part, all[:min(part, len(all))])
	}
	return o
}

// detected sends bytes, in pieces, over a pipe. It returns the result of the detection, and the
// bytes that the server reads then, with tail, without the acknowledgement in between.
func detected(t *testing.T, text []byte, piece int,
	patience time.Duration) (isGRPC bool, reads []byte, err error) {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	var talking sync.WaitGroup
	talking.Go(func() {
		for rest := text; len(rest) > 0; {
			n := min(piece, len(rest))
			if _, err := client.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		client.Write(
			[]byte{0, 0, 0, byte(http2.FrameSettings), byte(http2.FlagSettingsAck), 0, 0, 0, 0})
		client.Write(tail)
		client.Close()
	})
	talking.Go(func() { io.Copy(io.Discard, bufio.NewReader(client)) })
	c := &Conn{Conn: server}
	isGRPC, err = c.detect(func() time.Time { return time.Now().Add(patience) })
	if err == nil {
		server.SetReadDeadline(time.Time{})
		reads, err = io.ReadAll(c)
	}
	server.Close()
	talking.Wait()
	return isGRPC, reads, err
}

var tail = []byte{0, 0, 3, byte(http2.FrameData), 0, 0, 0, 0, 1, 'e', 'n', 'd'}

func TestDetection_FirstRequestDecides(t *testing.T) {
	t.Parallel()
	pinged := func(contentType string) []byte {
		o := open()
		o.framer.WritePing(false, [8]byte{1})
		return o.request(contentType, 1<<10).bytes.Bytes()
	}
	plain := func(contentType string) []byte {
		return open().request(contentType,
			1<<10).bytes.Bytes()
	}
	acked := open()
	before := bytes.Clone(acked.bytes.Bytes())
	acked.framer.WriteSettingsAck()
	acked.request("application/grpc", 1<<10)
	without := append(before, acked.bytes.Bytes()[len(before)+frameHeader:]...)
	for name, c := range map[string]struct {
		sends  []byte
		isGRPC bool
		reads  []byte // nil: the bytes that were sent
	}{
		"gRPC": {open().request("application/grpc", 1<<10).bytes.Bytes(),
			true, nil},
		"gRPC with a codec": {open().request("application/grpc+proto",
			1<<10).bytes.Bytes(), true, nil},
		"gRPC in parts": {open().request("application/grpc", 7).bytes.Bytes(), true,
			nil},
		"gRPC-Web": {open().request("application/grpc-web+proto",
			1<<10).bytes.Bytes(), false, nil},
		"Connect": {open().request("application/connect+proto",
			1<<10).bytes.Bytes(), false, nil},
		"JSON in parts": {open().request("application/json", 7).bytes.Bytes(), false,
			nil},
		"a ping, then gRPC": {pinged("application/grpc"), true,
			plain("application/grpc")},
		"a ping, then JSON": {pinged("application/json"), false,
			plain("application/json")},
		"acknowledged before it began": {acked.bytes.Bytes(), true, without},
	} {
		for _, piece := range []int{1, 10, 1 << 20} {
			isGRPC, reads, err := detected(t, c.sends, piece, time.Minute)
			want := c.reads
			if want == nil {
				want = c.sends
			}
			if name == "acknowledged before it began" {
				want = append(bytes.Clone(want), 0, 0, 0, byte(http2.FrameSettings),
					byte(http2.FlagSettingsAck), 0, 0, 0, 0)
			}
			if want = append(bytes.Clone(want), tail...); err != nil || isGRPC != c.isGRPC ||
				!bytes.Equal(reads, want) {
				t.Errorf("%s, in pieces of %d: gRPC %v (%v), the server reads\n%q, want\n%q", name,
					piece, isGRPC, err, reads, want)
			}
		}
	}
	const other = "PRINT / HTTP/1.1\r\n"
	isGRPC, reads, err := detected(t, []byte(other), 3, time.Minute)
	if err != nil || isGRPC || !bytes.HasPrefix(reads, []byte(other)) {
		t.Errorf("HTTP/1.1: gRPC %v (%v), the server reads %q", isGRPC, err, reads)
	}
}

// A client that pings before its first request gets its answer: some wait for it.
func TestDetection_Ping_Answered(t *testing.T) {
	t.Parallel()
	b := serve(t, Options{})
	conn, err := net.Dial("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	o := open()
	o.framer.WritePing(false, [8]byte{7})
	conn.Write(o.bytes.Bytes())
	for framer := http2.NewFramer(nil, conn); ; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() && ping.Data == [8]byte{7} {
			return
		}
	}
}

// A client without a request is classified as gRPC, wherever it stopped, and no byte is lost.
func TestDetection_NoRequest_GRPC(t *testing.T) {
	t.Parallel()
	whole := open().request("application/json", 1<<10).bytes.Bytes()
	for stop := len(http2.ClientPreface); stop < len(whole)-1; stop++ {
		client, server := net.Pipe()
		c := &Conn{Conn: server}
		var talking sync.WaitGroup
		next := make(chan struct{})
		talking.Go(func() {
			client.Write(whole[:stop])
			<-next
			client.Write(whole[stop:])
			client.Write(
				[]byte{0, 0, 0, byte(http2.FrameSettings), byte(http2.FlagSettingsAck), 0, 0, 0, 0})
			client.Write(tail)
			client.Close()
		})
		talking.Go(func() { io.Copy(io.Discard, client) })
		isGRPC, err := c.detect(func() time.Time { return time.Now().Add(2 * time.Millisecond) })
		close(next)
		if err != nil || !isGRPC {
			t.Fatalf("after %d bytes: gRPC %v (%v)", stop, isGRPC, err)
		}
		server.SetReadDeadline(time.Time{})
		if reads, err := io.ReadAll(c); err != nil ||
			!bytes.Equal(reads, append(bytes.Clone(whole), tail...)) {
			t.Fatalf("after %d bytes the server reads\n%q, want\n%q and the tail (%v)", stop, reads,
				whole, err)
		}
		server.Close()
		talking.Wait()
	}
}

func TestDetection_Bounded(t *testing.T) {
	t.Parallel()
	const unknown = 0x42
	long := strings.Repeat("\x01", maxDetection)
	for name, c := range map[string]struct {
		sends  []byte
		isGRPC bool
		fails  bool
	}{
		"a long frame": {
			open().raw(unknown, maxDetection).request("application/grpc", 1<<10).sent(),
			false, true,
		},
		"many frames": {
			open().raw(unknown, maxDetection/2).raw(unknown, maxDetection/2).sent(), false, true,
		},
		"frames within the bound": {
			open().raw(unknown, maxDetection-1<<10).request("application/grpc", 1<<10).sent(),
			true, false,
		},
		"long headers before the content type": {
			open().fields([2]string{":method", "POST"}, [2]string{"x", long},
				[2]string{"content-type", "application/grpc"}).sent(), false, false,
		},
		"long headers after the content type": {
			open().fields([2]string{":method", "POST"},
				[2]string{"content-type", "application/grpc"}, [2]string{"x", long}).sent(),
			true, false,
		},
		"long headers of a GET": {
			open().fields([2]string{":method", "GET"}, [2]string{"x", long}).sent(), false, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isGRPC, reads, err := detected(t, c.sends, 1<<20, time.Minute)
			if (err != nil) != c.fails || isGRPC != c.isGRPC {
				t.Errorf("gRPC %v, %v", isGRPC, err)
			}
			if want := append(c.sends, tail...); !c.fails && !bytes.Equal(reads, want) {
				t.Errorf("the server reads %d bytes, want %d", len(reads), len(want))
			}
		})
	}
}

// TestPending_Drained_Released: a connection keeps no bytes of its detection once they are read.
func TestPending_Drained_Released(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	const request = "GET / HTTP/1.1\r\n"
	go client.Write([]byte(request))
	c := &Conn{Conn: server}
	if _, err := c.detect(func() time.Time { return time.Now().Add(time.Minute) }); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len(request))); err != nil || c.pending != nil {
		t.Errorf("%d bytes are kept, %v", cap(c.pending), err)
	}
}
