package endpoint

import (
	"context"
	"net"
	"time"
)

const (
	connectTimeout = 5 * time.Second
	// deadPeer is how long a peer may leave data unacknowledged. Without a limit, a peer that
	// vanished keeps its connection, and so all calls failing, for a quarter of an hour.
	deadPeer = 20 * time.Second
)

// Dial connects to a signer.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout, Control: limitUnacknowledged}
	return d.DialContext(ctx, network, address)
}
