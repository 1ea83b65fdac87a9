package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/txn"
)

const (
	serverVariable = config.Prefix + "SERVER"
	tokenVariable  = config.Prefix + "TOKEN_FILE"
	defaultServer  = "127.0.0.1:9090"
)

// clientFlags are common to all commands that call a node.
type clientFlags struct {
	server  string
	timeout time.Duration
	tls     bool
	tlsCA   string
	tlsName string
	tlsCert string
	tlsKey  string
	token   string // file
}

func (f *clientFlags) add(c *cobra.Command) {
	flags := c.PersistentFlags()
	flags.StringVar(&f.server, "server", "",
		"address of a node (default: $"+serverVariable+", else "+defaultServer+")")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "limit for each call")
	flags.BoolVar(&f.tls, "tls", false, "use TLS with the system's trusted certificates")
	flags.StringVar(&f.tlsCA, "tls-ca", "", "use TLS and trust the certificates in this PEM file")
	flags.StringVar(&f.tlsName, "tls-name", "",
		"use TLS and expect this name in the node's certificate")
	flags.StringVar(&f.tlsCert, "tls-cert", "",
		"use TLS with the client certificate in this PEM file; needs --tls-key")
	flags.StringVar(&f.tlsKey, "tls-key", "", "PEM file with the key of --tls-cert")
	flags.StringVar(&f.token, "token-file", "",
		"file with the bearer token to send (default: $"+tokenVariable+")")
}

// credentials are the transport credentials in the flags.
func (f *clientFlags) credentials() (credentials.TransportCredentials, error) {
	if f.plain() {
		return insecure.NewCredentials(), nil
	}
	c := &tls.Config{ServerName: f.tlsName, MinVersion: tls.VersionTLS12}
	if f.tlsCA != "" {
		pem, err := os.ReadFile(f.tlsCA)
		if err != nil {
			return nil, fmt.Errorf("read --tls-ca: %w; correct the path", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf(
				"no certificate in %s; give a PEM file with the certificates to trust",
				f.tlsCA)
		}
	}
	if f.tlsCert != "" || f.tlsKey != "" {
		pair, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			return nil, fmt.Errorf(
				"read --tls-cert and --tls-key: %w; give both, as PEM files", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(c), nil
}

// plain reports whether no flag requests TLS.
func (f *clientFlags) plain() bool {
	return !f.tls && f.tlsCA == "" && f.tlsName == "" && f.tlsCert == "" && f.tlsKey == ""
}

// bearer is a token sent with each call.
type bearer struct {
	token string
	plain bool
}

// readBearer reads the token. In plain text it is sent to loopback addresses only, where a proxy
// may do TLS for the node.
func (f *clientFlags) readBearer() (bearer, error) {
	text, err := os.ReadFile(f.token)
	if err != nil {
		return bearer{}, fmt.Errorf(
			"read --token-file: %w; give a readable file there or in %s", err, tokenVariable)
	}
	b := bearer{strings.TrimSpace(string(text)), f.plain()}
	if b.token == "" || strings.ContainsAny(b.token, " \r\n") {
		return b, fmt.Errorf("token file %s: must hold exactly one token and nothing else",
			f.token)
	}
	if host, _, err := net.SplitHostPort(f.server); b.plain &&
		(err != nil || host != "localhost" && !net.ParseIP(host).IsLoopback()) {
		return b, usageError{
			"refusing to send a token in plain text; use TLS, with --tls or --tls-ca",
		}
	}
	return b, nil
}

// GetRequestMetadata is the header.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

// RequireTransportSecurity reports whether the token needs TLS.
func (b bearer) RequireTransportSecurity() bool { return !b.plain }

// client is a connection to a node.
type client struct {
	server  string
	timeout time.Duration
	command *cobra.Command
	note    func(format string, args ...any)
	conn    *grpc.ClientConn
	dial    []grpc.DialOption // of conn
	txs     pb.TxServiceClient
	subs    pb.SubmitterServiceClient
	sinks   pb.SinkServiceClient
	pools   pb.PoolServiceClient
	nonces  pb.NonceServiceClient
	status  pb.StatusServiceClient
}

// connect prepares a connection. It is not dialled before the first call.
func (p *program) connect(cmd *cobra.Command, f clientFlags) (*client, error) {
	if f.server == "" {
		f.server = p.variable(serverVariable)
	}
	if f.server == "" {
		f.server = defaultServer
	}
	if f.timeout <= 0 {
		return nil, usageError{"--timeout must be positive; give a duration like 30s"}
	}
	if err := checkAddress(f.server); err != nil {
		return nil, err
	}
	secure, err := f.credentials()
	if err != nil {
		return nil, err
	}
	// Pings detect a node that vanished while a watch is idle.
	pings := keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithKeepaliveParams(pings),
	}
	if f.token == "" {
		f.token = p.variable(tokenVariable)
	}
	if f.token != "" {
		token, err := f.readBearer()
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.WithPerRPCCredentials(token))
	}
	conn, err := grpc.NewClient(f.server, options...)
	if err != nil {
		return nil, notAnAddress(f.server)
	}
	return &client{
		f.server,
		f.timeout,
		cmd,
		p.note,
		conn,
		options,
		pb.NewTxServiceClient(conn),
		pb.NewSubmitterServiceClient(conn),
		pb.NewSinkServiceClient(conn),
		pb.NewPoolServiceClient(conn),
		pb.NewNonceServiceClient(conn),
		pb.NewStatusServiceClient(conn),
	}, nil
}

// calling makes a command from a function that calls a node.
func (p *program) calling(f *clientFlags,
	do func(ctx context.Context, c *client, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := legible(cmd, args); err != nil {
			return err
		}
		if err := idsAreIDs(cmd, args); err != nil {
			return err
		}
		c, err := p.connect(cmd, *f)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		return do(cmd.Context(), c, args)
	}
}

// callsNone makes a command of a group whose other commands call a node one that calls none: it
// works on the database, and rejects the flags of the group instead of ignoring them.
func callsNone(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		for _, f := range visited(c.Parent().PersistentFlags().VisitAll) {
			if f.Changed {
				return misused(c, "--%s is for calls to a node, and this command works on the "+
					"database; omit it", f.Name)
			}
		}
		return run(c, args)
	}
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		for _, f := range visited(c.Parent().PersistentFlags().VisitAll) {
			f.Hidden = true
		}
		c.Parent().HelpFunc()(c, args)
	})
	return c
}

// checkAddress rejects an invalid address before the call, with a better error. No port is guessed.
func checkAddress(server string) error {
	_, port, err := net.SplitHostPort(server)
	if err != nil {
		return notAnAddress(server)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return notAnAddress(server)
	}
	return nil
}

func notAnAddress(server string) error {
	return usageError{
		fmt.Sprintf(
			"--server %q: must be HOST:PORT of a node's gRPC port, like %s",
			server, defaultServer),
	}
}

// idsAreIDs rejects a malformed TX_ID or RESERVATION_ID, and a malformed HASH where that is an
// alternative. It adds a missing 0x to hashes.
func idsAreIDs(c *cobra.Command, args []string) error {
	names := argumentNames(c)
	for i, arg := range args {
		if len(names) == 0 {
			continue
		}
		name, other, _ := strings.Cut(names[min(i, len(names)-1)], "|")
		if name == "RESERVATION_ID" && other == "" {
			if _, err := txn.ParseTxID(arg); err != nil {
				return misused(c, "RESERVATION_ID %q is not a reservation id; "+
					"\"fencepost nonce list\" lists them", arg)
			}
		}
		if name != "TX_ID" {
			continue
		}
		hash, is := hashIn(arg)
		switch {
		case is && other != "HASH":
			return misused(c,
				"TX_ID %q is a hash; \"fencepost tx get HASH\" prints the id of its transaction",
				arg)
		case is && !wellFormed(hash):
			return misused(c, "HASH %q is not \"0x\" and 64 hex digits", arg)
		case is:
			args[i] = hash
			continue
		}
		if _, err := txn.ParseTxID(arg); err != nil {
			return misused(c,
				"TX_ID %q is not a transaction id; \"fencepost tx list\" lists them",
				arg)
		}
	}
	return nil
}

// hashIn reports whether an argument is meant as a hash, and returns it with the prefix 0x.
func hashIn(arg string) (string, bool) {
	if wellFormed("0x" + arg) {
		return "0x" + arg, true
	}
	return arg, strings.HasPrefix(arg, "0x")
}

func wellFormed(hash string) bool {
	b, err := hex.DecodeString(strings.TrimPrefix(hash, "0x"))
	return err == nil && len(b) == len(txn.Hash{})
}

// argumentNames are the names of the arguments in the usage of a command.
func argumentNames(c *cobra.Command) (names []string) {
	for _, word := range strings.Fields(c.Use)[1:] {
		if name := strings.Trim(word, "[]."); name != "" && name == strings.ToUpper(name) {
			names = append(names, name)
		} else {
			break // flags come last
		}
	}
	return names
}

// legible rejects arguments that are not UTF-8, which the API requires. File names are not sent and
// may be any bytes.
func legible(c *cobra.Command, args []string) error {
	var bad []string
	names := argumentNames(c)
	for i, arg := range args {
		if !utf8.ValidString(arg) {
			bad = append(bad, names[min(i, len(names)-1)])
		}
	}
	for _, f := range visited(c.Flags().Visit) {
		if !strings.HasPrefix(f.Name, "tls-c") && f.Name != "tls-key" && f.Name != "token-file" &&
			f.Name != "config" &&
			!utf8.ValidString(f.Value.String()) {
			bad = append(bad, "--"+f.Name)
		}
	}
	if len(bad) > 0 {
		return misused(c,
			"%s: not valid UTF-8; check the encoding of your terminal",
			strings.Join(bad, ", "))
	}
	return nil
}

// visited collects the values of a visitor.
func visited[T any](visit func(func(T))) (all []T) {
	visit(func(one T) { all = append(all, one) })
	return all
}

// call makes one call, within the timeout.
func call[Q, A any](ctx context.Context, c *client,
	method func(context.Context, Q, ...grpc.CallOption) (A, error), ask Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := method(ctx, ask)
	if err == nil {
		c.noteMissing(answer)
	}
	return answer, c.explain(err)
}

// noteMissing warns of ledgers whose part a list lacks.
func (c *client) noteMissing(answer any) {
	list, ok := answer.(interface{ GetMissingLedgers() []string })
	if !ok || len(list.GetMissingLedgers()) == 0 || c.note == nil {
		return
	}
	c.note("the list is incomplete: no response from %s",
		strings.Join(list.GetMissingLedgers(), ", "))
}

// wire prints an API message as protobuf JSON.
type wire struct{ proto.Message }

// MarshalJSON includes zero values, so that scripts need no defaults.
func (w wire) MarshalJSON() ([]byte, error) {
	return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(w.Message)
}

// printLine writes a message as one line of JSON.
func (p *program) printLine(m proto.Message) error {
	spaced, err := wire{m}.MarshalJSON()
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, spaced); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	line.WriteByte('\n')
	if _, err := line.WriteTo(p.out); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

const timeForm = "2006-01-02T15:04:05.000Z"

func shownTime(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().UTC().Format(timeForm)
}

func shownState(state pb.TxState, sub pb.TxSubState) string {
	text := strings.TrimPrefix(state.String(), "TX_STATE_")
	if sub != pb.TxSubState_TX_SUB_STATE_UNSPECIFIED {
		text += "/" + strings.TrimPrefix(sub.String(), "TX_SUB_STATE_")
	}
	return text
}

func shown(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
