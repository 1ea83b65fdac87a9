package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/internal/hosts"
	"github.com/fencepost/fencepost/server/status"
)

// origins are the web sites whose pages may call from a browser; "*" is any.
//
// A page of any other site is rejected, not only kept from reading the response: the call itself
// could cause a write.
type origins []string

// misdirected rejects a request for another host (package hosts).
func misdirected(w http.ResponseWriter, r *http.Request) {
	refuse(w, http.StatusMisdirectedRequest, status.WithReason(
		grpcstatus.New(codes.PermissionDenied, hosts.Rejected(r.Host, "grpc.allowed_hosts")),
		pb.ErrorReason_ERROR_REASON_PERMISSION_DENIED))
}

// checkOrigin returns the response to a page that may not call; nil for any other request. Pages of
// the console are pages of this node.
func (f *Gateway) checkOrigin(w http.ResponseWriter, r *http.Request) (answer func()) {
	if f.Console != nil && fromOwnPage(r) {
		return nil
	}
	return origins(f.AllowedOrigins).check(w, r)
}

// fromOwnPage reports whether a page of this node made the request. Browsers report it in a header
// that no page can set; older ones, and pages over plain HTTP, only name the origin. Its host is
// compared with that of the request, which AllowHost has checked.
func fromOwnPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// check returns the response to the page of a site that is not allowed, and to the preflight of a
// browser; nil for any other request, whose response gets the headers that its page needs.
func (o origins) check(w http.ResponseWriter, r *http.Request) (answer func()) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if !slices.Contains(o, origin) && !slices.Contains(o, "*") {
		return func() { refuse(w, http.StatusForbidden, errOrigin) }
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers",
		"Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return nil
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH")
	h.Set("Access-Control-Allow-Headers",
		"Authorization, Connect-Protocol-Version, Connect-Timeout-Ms, Content-Type, "+
			"Grpc-Timeout, Last-Event-ID, X-Grpc-Web, X-User-Agent")
	h.Set("Access-Control-Max-Age", "7200")
	return func() { w.WriteHeader(http.StatusNoContent) }
}

var errOrigin = status.WithReason(grpcstatus.New(codes.PermissionDenied,
	"origin: web pages of this site may not call; add it to grpc.allowed_origins"),
	pb.ErrorReason_ERROR_REASON_PERMISSION_DENIED)
