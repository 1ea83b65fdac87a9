// Package hosts decides which Host headers a listener accepts, and which addresses are public.
//
// A web page can make a browser send requests to any address that the browser can reach: the name
// of its site resolves to that address (DNS rebinding). The browser lets the page read the
// responses, but it sends the name of the site as the host. So a listener rejects names that are
// not its own. Pages cannot make a browser send another host, nor rebind an IP address.
package hosts

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Names are the host names of a listener, in lower case, in addition to IP addresses and localhost.
// "*" allows all.
type Names []string

// Allow reports whether a Host header is one of the listener's. An empty one is: browsers always
// send a host.
func (n Names) Allow(header string) bool {
	host := Host(header)
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		slices.Contains(n, host) || slices.Contains(n, "*")
}

// Host returns the host of a Host header or of a listener's address in lower case, without port.
func Host(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		header = host
	}
	header = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	return strings.ToLower(strings.TrimSuffix(header, "."))
}

// Check wraps a handler whose listener has these names. It rejects other hosts with 421 Misdirected
// Request. key is the configuration key of the names.
func (n Names) Check(key string, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.Allow(r.Host) {
			http.Error(w, Rejected(r.Host, key), http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

const maxQuoted = 100 // bytes of a host in an error

// Rejected returns the error for a host that is not allowed.
func Rejected(header, key string) string {
	host := Host(header)
	return fmt.Sprintf("host: %q is not a name of this node; use its IP address, or add the name "+
		"to %s", host[:min(len(host), maxQuoted)], key)
}
