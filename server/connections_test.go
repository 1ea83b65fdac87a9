package server

import (
	"net"
	"net/http"
	"testing"
)

// Connections without a call do not keep others out, and a client keeps its connection.
func TestConnections_ManyIdle_OthersServed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve(limits(func(l *Limits) { l.Connections, l.ConnectionsPerSource = 20, 15 }))
	n.create("alice", "first")
	for range 60 {
		conn, err := net.Dial("tcp", n.conn.Target())
		h.must(err)
		t.Cleanup(func() { conn.Close() })
	}
	h.eventually("the idle connections were counted", func() bool {
		proven, strangers := n.server.connections.States()
		return proven == 1 && strangers == 14
	})
	n.create("alice", "second")
	for _, ip := range []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)} {
		other := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}}).DialContext}}
		response, err := other.Do(n.request("GET", "/api/v1/submitters/alice", ""))
		h.must(err)
		if response.Body.Close(); response.StatusCode != http.StatusOK {
			t.Errorf("from %v: %s", ip, response.Status)
		}
	}
}
