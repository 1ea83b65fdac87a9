package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	dir     string
	grpc    string
	ops     string
	rpcPort int
	period  time.Duration
	reset   bool
	verbose bool
	signer  string
}

const (
	defaultGRPC    = "127.0.0.1:9090"
	defaultRPCPort = 8545
	shortestPeriod = 20 * time.Millisecond
)

var signers = []string{"keystore", "clef", "softhsm", "local-kms"}

// helpError is the help, which is asked for.
type helpError struct{ text string }

func (h helpError) Error() string        { return h.text }
func (h helpError) Is(target error) bool { return target == flag.ErrHelp }

// parse reads the command line. It rejects every mistake that needs no start to be found.
func parse(args []string) (options, error) {
	o := options{
		grpc: defaultGRPC, ops: "127.0.0.1:9091", rpcPort: defaultRPCPort, period: time.Second,
	}
	f := o.flags()
	var text strings.Builder
	f.SetOutput(io.Discard)
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(&text)
		fmt.Fprintln(&text, "Usage: fencepost-dev [flags]")
		f.PrintDefaults()
		return o, helpError{text.String()}
	case err != nil:
		return o, fmt.Errorf("%w; see \"fencepost-dev --help\"", err)
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: only flags are known; "+
			"see \"fencepost-dev --help\"", f.Arg(0))
	}
	given := false
	f.Visit(func(f *flag.Flag) { given = given || f.Name == "dir" })
	o.dir = signerDir(o.dir, o.signer, given)
	return o, nil
}

func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("fencepost-dev", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", ".run", "data `folder`")
	f.Func("grpc", "`address` of the node's gRPC port (default "+o.grpc+")", address(&o.grpc))
	f.Func("ops", "`address` of /metrics, /healthz and /readyz (default "+o.ops+")",
		address(&o.ops))
	f.Func("rpc-port", fmt.Sprintf("loopback `port` of the chain's JSON-RPC (default %d)",
		o.rpcPort), func(text string) (err error) {
		o.rpcPort, err = port(text)
		return err
	})
	f.Func("period", fmt.Sprintf("block `time` (default %s)", o.period),
		func(text string) (err error) {
			o.period, err = time.ParseDuration(text)
			if err != nil || o.period < shortestPeriod {
				return fmt.Errorf("must be a duration with a unit, like 1s, and at least %s",
					shortestPeriod)
			}
			return nil
		})
	f.BoolVar(&o.reset, "reset", false, "delete the data folder's content and start from scratch")
	f.BoolVar(&o.verbose, "verbose", false, "log at debug level")
	o.signer = signers[0]
	f.Func("signer", "`holder` of the keys: "+strings.Join(signers, ", ")+" (default "+o.signer+")",
		func(text string) error {
			o.signer = text
			if !slices.Contains(signers, text) {
				return fmt.Errorf("must be one of %s", strings.Join(signers, ", "))
			}
			return nil
		})
	return f
}

// address reads HOST:PORT. The guide names it to clients, so the host must not be empty.
func address(into *string) func(string) error {
	return func(text string) error {
		*into = text
		host, digits, err := net.SplitHostPort(text)
		if err == nil {
			_, err = port(digits)
		}
		if err != nil || host == "" {
			return errors.New("must be HOST:PORT, like " + defaultGRPC)
		}
		return nil
	}
}

func port(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("must be a port, 1 to 65535")
	}
	return int(n), nil
}
