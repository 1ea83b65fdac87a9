// Package fencepost is the Go client of Fencepost.
//
// [Connect] gives a [Client]. Its Txs and Submitters are the generated stubs, so every call of the contract is there. What the client adds is small:
//
//   - A call that fails with UNAVAILABLE is repeated, up to four times with growing pauses; one that fails with RESOURCE_EXHAUSTED is repeated only if the node
//     says when. Both are safe: a call of Fencepost that is repeated unchanged cannot act twice.
//   - Every error is an [*Error], with the reason that the node gave.
//   - [Client.Watch] resumes by itself when its stream breaks; [Client.CreateAndWait] creates a transaction and returns it once it is final.
//
// A Client is safe for concurrent use. One for a whole program is enough.
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

// Options are how a client connects and how long it waits. The zero value is a plain-text connection with the defaults.
type Options struct {
	// TLS encrypts the connection; nil sends plain text.
	TLS *TLS
	// Token is sent with each call as "authorization: Bearer <token>". It needs TLS.
	Token string
	// Timeout is how long a call may take in all, repetitions included, unless its context ends earlier. Default 60 s. Watch has none.
	Timeout time.Duration
	// Heartbeat is how often an idle watch hears from the node, unless its request says; 1 s to 5 min, default 15 s. A watch that hears nothing for three times
	// as long takes its stream for dead.
	Heartbeat time.Duration
	// Patience is how long a watch tries to get a stream again before it gives up. Default 5 min.
	Patience time.Duration
	// Dial options are added to the client's own.
	Dial []grpc.DialOption
}

// TLS says who the node must be, and who the client is. Certificates and keys are in PEM form.
type TLS struct {
	// CA holds the certificates to trust; empty trusts those of the machine.
	CA []byte
	// Certificate and Key prove who the client is, for nodes that ask; both or neither.
	Certificate, Key []byte
	// ServerName is the name that the node's certificate must bear; empty is the host of the target.
	ServerName string
}

const (
	defaultTimeout   = time.Minute
	defaultHeartbeat = 15 * time.Second
	defaultPatience  = 5 * time.Minute
	// maxAnswer is the largest answer that is read: a page of transactions with large payloads goes far beyond the 4 MiB of gRPC.
	maxAnswer = 64 << 20
)

// Client is a connection to Fencepost.
type Client struct {
	// Txs creates, reads, cancels and watches transactions.
	Txs pb.TxServiceClient
	// Submitters is for operators: the accounts that Fencepost sends from.
	Submitters pb.SubmitterServiceClient

	conn                *grpc.ClientConn
	heartbeat, patience time.Duration
	// closed ends, with ErrClosed as its cause, when the client is closed.
	closed context.Context
	end    context.CancelCauseFunc
}

// Connect makes a client for a target: "host:port" of a node or a load balancer, or "dns:///host:port" for a name with an address for each node. Nothing is dialled
// before the first call. It fails when the options are wrong.
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
		// A node that vanished while nothing was said is found out by pings, and tried again at a steady pace.
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
				"fencepost: a token over plain text is there for all to read; give TLS options as well")
		}
		options = append(options, grpc.WithPerRPCCredentials(bearer(o.Token)))
	}
	conn, err := grpc.NewClient(target, append(options, o.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("fencepost: target %q is not an address: %w; give host:port", target,
			err)
	}
	c.Txs, c.Submitters, c.conn = pb.NewTxServiceClient(conn), pb.NewSubmitterServiceClient(
		conn), conn
	return c, nil
}

// Close ends the connection, and with it every call and every watch under way, also those that wait to be made again: they fail with [ErrClosed], and so does
// whatever is asked of the client later.
func (c *Client) Close() error {
	c.end(ErrClosed)
	return c.conn.Close()
}

// whileOpen is a context that ends with ErrClosed as its cause when the client is closed.
func (c *Client) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(c.closed, func() { cancel(ErrClosed) })
	return ctx, func() { release(); cancel(nil) }
}

// CreateAndWait creates a transaction and returns it once it is final, whether it succeeded or not: its state and executed tell. A request whose request_id was
// used before waits for that transaction. When ctx ends first, the transaction goes on, and the same call waits for it again.
func (c *Client) CreateAndWait(ctx context.Context, request *pb.CreateTxRequest) (*pb.Tx, error) {
	created, err := c.Txs.CreateTx(ctx, request)
	if err != nil {
		return nil, err
	}
	tx := created.GetTx()
	// More than once only if a reorg takes a transaction out of a final state between the end of the watch and the look.
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

// WatchTx asks for the events of one transaction, to its final one.
func WatchTx(id string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: id}, UntilFinal: true}
}

// WatchTxs asks for the events of several transactions, 100 at most, until all are final. Each is first shown as it is (snapshots), the newest first.
func WatchTxs(ids ...string) *pb.WatchTxRequest {
	return &pb.WatchTxRequest{
		Target:     &pb.WatchTxRequest_Txs{Txs: &pb.TxIds{TxIds: ids}},
		UntilFinal: true,
	}
}

// Final tells whether a state is an end: CONFIRMED, FAILED_FINAL or CANCELLED.
func Final(s pb.TxState) bool {
	return s == pb.TxState_TX_STATE_CONFIRMED || s == pb.TxState_TX_STATE_FAILED_FINAL ||
		s == pb.TxState_TX_STATE_CANCELLED
}

func (o *Options) complete() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.Timeout, defaultTimeout}, {&o.Heartbeat, defaultHeartbeat}, {&o.Patience, defaultPatience}} {
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
				"fencepost: TLS.CA holds no certificate; give the PEM text of the certificates to trust")
		}
	}
	if len(t.Certificate) > 0 || len(t.Key) > 0 {
		pair, err := tls.X509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf(
				"fencepost: TLS.Certificate and TLS.Key: %w; give the PEM texts of a certificate and its key",
				err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(c), nil
}

// bearer is a token that is never sent in plain text.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }
