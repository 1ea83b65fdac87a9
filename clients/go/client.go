// Package fencepost is the Go client of Fencepost.
//
// [Connect] returns a [Client]. Its Txs and Submitters are the generated stubs for every call of
// the contract. The client adds:
//
//   - Retries: a call that fails with UNAVAILABLE is retried up to four times with growing delays;
//     one that fails with RESOURCE_EXHAUSTED, only if the node sends a retry delay. Both are safe:
//     an unchanged call cannot act twice.
//   - Typed errors: every error is an [*Error] with the reason given by the node.
//   - [Client.Watch], which resumes automatically when its stream breaks, and
//     [Client.CreateAndWait], which returns a transaction once it is final.
//   - [Client.WithNonce], for accounts whose transactions the program signs itself.
//
// A Client is safe for concurrent use; a program needs only one.
package fencepost

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Options configure a client. The zero value is a plain-text connection with the defaults.
type Options struct {
	// TLS encrypts the connection; nil sends plain text.
	TLS *TLS
	// Token is sent with each call as "authorization: Bearer <token>". It needs TLS.
	Token string
	// Timeout limits a call including its retries, unless its context ends earlier. Default 60 s.
	// It does not apply to Watch.
	Timeout time.Duration
	// Heartbeat is the interval of heartbeats on an idle watch, unless its request sets one; 1 s to
	// 5 min, default 15 s. A stream that is silent for three intervals counts as dead.
	Heartbeat time.Duration
	// Patience limits how long a watch tries to get a new stream. Default 5 min.
	Patience time.Duration
	// Dial options are added to the client's own.
	Dial []grpc.DialOption
}

// TLS authenticates the node, and optionally the client. Certificates and keys are in PEM form.
type TLS struct {
	// CA holds the trusted certificates; empty trusts the system's.
	CA []byte
	// Certificate and Key authenticate the client, for nodes that require it; set both or neither.
	Certificate, Key []byte
	// ServerName is the name required in the node's certificate; empty is the host of the target.
	ServerName string
}

const (
	defaultTimeout   = time.Minute
	defaultHeartbeat = 15 * time.Second
	defaultPatience  = 5 * time.Minute
	// maxAnswer limits a response, in bytes. Pages with large payloads exceed gRPC's default of 4
	// MiB.
	maxAnswer = 64 << 20
)

// Client is a connection to Fencepost.
type Client struct {
	// Txs creates, reads, cancels and watches transactions.
	Txs pb.TxServiceClient
	// Submitters manages the accounts that Fencepost sends from, for operators.
	Submitters pb.SubmitterServiceClient
	// Sinks manages the delivery of events to other systems, for operators.
	Sinks pb.SinkServiceClient
	// Nonces reserves nonces for programs that sign themselves; see WithNonce.
	Nonces pb.NonceServiceClient
	// Pools manages pools of accounts, for operators.
	Pools pb.PoolServiceClient
	// Status reports the state of the nodes and their chains.
	Status pb.StatusServiceClient

	conn                *grpc.ClientConn
	heartbeat, patience time.Duration
	// closed ends with cause ErrClosed when the client is closed.
	closed context.Context
	end    context.CancelCauseFunc
}

// Connect returns a client for a target: "host:port" of a node or load balancer, or
// "dns:///host:port" for a name with one address per node. It fails if the options are invalid, and
// does not dial before the first call.
func Connect(target string, o Options) (*Client, error) {
	o.complete()
	secure, err := o.TLS.credentials()
	if err != nil {
		return nil, err
	}
	c := &Client{heartbeat: o.Heartbeat, patience: o.Patience}
	c.closed, c.end = context.WithCancelCause(context.Background())
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithUnaryInterceptor(c.interceptUnary(o.Timeout)),
		grpc.WithStreamInterceptor(c.interceptStream),
		grpc.WithStatsHandler(attempts{}),
		// Pings detect a node that vanished silently; reconnects have a steady pace.
		grpc.WithKeepaliveParams(
			keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  200 * time.Millisecond,
				Multiplier: 1.6,
				Jitter:     0.2,
				MaxDelay:   5 * time.Second,
			},
			MinConnectTimeout: 10 * time.Second,
		}),
	}
	if o.Token != "" {
		if o.TLS == nil {
			return nil, errors.New(
				"fencepost: a token must not be sent over plain text; set Options.TLS")
		}
		options = append(options, grpc.WithPerRPCCredentials(bearer(o.Token)))
	}
	conn, err := grpc.NewClient(target, append(options, o.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("fencepost: invalid target %q: %w; use host:port", target,
			err)
	}
	c.conn = conn
	c.Txs = pb.NewTxServiceClient(conn)
	c.Submitters = pb.NewSubmitterServiceClient(conn)
	c.Sinks = pb.NewSinkServiceClient(conn)
	c.Nonces = pb.NewNonceServiceClient(conn)
	c.Pools = pb.NewPoolServiceClient(conn)
	c.Status = pb.NewStatusServiceClient(conn)
	return c, nil
}

// Close ends the connection, all calls and watches, and pending retries. They fail with
// [ErrClosed], as do later calls.
func (c *Client) Close() error {
	c.end(ErrClosed)
	return c.conn.Close()
}

// whileOpen returns a context that ends with cause ErrClosed when the client is closed.
func (c *Client) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(c.closed, func() { cancel(ErrClosed) })
	return ctx, func() { release(); cancel(nil) }
}

// CreateAndWait creates a transaction and returns it once it is final, for any outcome: see its
// state and executed. A request with a known request_id waits for that transaction. If ctx ends
// first, the transaction continues, and the same call waits for it again.
func (c *Client) CreateAndWait(ctx context.Context, request *pb.CreateTxRequest) (*pb.Tx, error) {
	created, err := c.Txs.CreateTx(ctx, request)
	if err != nil {
		return nil, err
	}
	tx := created.GetTx()
	// It repeats only if a reorg makes the transaction non-final between the watch and the read.
	for !Final(tx.GetState()) {
		if err := c.untilFinal(ctx, tx.GetTxId()); err != nil {
			return nil, err
		}
		got, err := c.Txs.GetTx(ctx,
			&pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: tx.GetTxId()}})
		if err != nil {
			return nil, err
		}
		tx = got.GetTx()
	}
	return tx, nil
}

func (c *Client) untilFinal(ctx context.Context, id string) error {
	for _, err := range c.Watch(ctx, WatchTx(id)) {
		if err != nil {
			return err
		}
	}
	return nil
}

// WatchTx requests the events of one transaction until it is final.
func WatchTx(id string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: id}, UntilFinal: true}
}

// WatchTxs requests the events of several transactions, at most 100, until all are final. It first
// delivers a snapshot of each, newest first.
func WatchTxs(ids ...string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{
		Target:     &pb.WatchTxRequest_Txs{Txs: &pb.TxIds{TxIds: ids}},
		UntilFinal: true,
	}
}

// Final reports whether a state is final: CONFIRMED, FAILED_FINAL or CANCELLED.
func Final(s pb.TxState) bool {
	return s == pb.TxState_TX_STATE_CONFIRMED || s == pb.TxState_TX_STATE_FAILED_FINAL ||
		s == pb.TxState_TX_STATE_CANCELLED
}

func (o *Options) complete() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.Timeout, defaultTimeout},
		{&o.Heartbeat, defaultHeartbeat},
		{&o.Patience, defaultPatience},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
}

func (t *TLS) credentials() (credentials.TransportCredentials, error) {
	if t == nil {
		return insecure.NewCredentials(), nil
	}
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if len(t.CA) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, errors.New(
				"fencepost: TLS.CA holds no certificate; set trusted certificates in PEM form")
		}
	}
	if len(t.Certificate) > 0 || len(t.Key) > 0 {
		pair, err := tls.X509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf(
				"fencepost: invalid TLS.Certificate or TLS.Key: %w; set both in PEM form",
				err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(c), nil
}

// bearer is a token that is never sent over plain text.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }
