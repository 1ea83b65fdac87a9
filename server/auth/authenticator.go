package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/server/status"
)

// AuthorizationHeader carries the token of a call, over gRPC as over HTTP.
const AuthorizationHeader = "authorization"

// Authenticator finds out who makes a call. It does so before the call takes room and before its
// request is read: for gRPC in the tap handler, for HTTP in ServeHTTP. The result is recorded in
// the context of the call, so that the interceptor, which runs when the request has arrived,
// repeats nothing unless the callers have been replaced since.
type Authenticator struct {
	current atomic.Pointer[callers]
	issuers []*Issuer
	streams streams
}

// NewAuthenticator returns an authenticator of the callers. Without callers it accepts the tokens,
// with all rights; without tokens it accepts every call. Callers with claims show tokens of the
// issuers.
func NewAuthenticator(tokens []string, of []Caller, issuers ...*Issuer) *Authenticator {
	a := &Authenticator{issuers: issuers}
	a.current.Store(a.newCallers(tokens, of))
	return a
}

// callers is an immutable set of credentials; SetCallers replaces it.
type callers struct {
	open        *Rights // of every call, if no credentials are required; else nil
	credentials []credential
	issuers     []*Issuer // nil: no caller has claims
}

// credential is one way to be authenticated.
type credential struct {
	tokens       [][sha256.Size]byte // digests, so that comparison times leak nothing
	claims       []Claim             // of a token of an issuer, which is as good as one of tokens
	certificates []string
	rights       *Rights
}

func (a *Authenticator) newCallers(tokens []string, of []Caller) *callers {
	all := &callers{}
	switch {
	case len(of) > 0:
		for _, c := range of {
			all.credentials = append(all.credentials,
				credential{digests(c.Tokens), c.Claims, c.Certificates, rightsOf(c)})
			if len(c.Claims) > 0 {
				all.issuers = a.issuers
			}
		}
	case len(tokens) > 0:
		all.credentials = []credential{{tokens: digests(tokens), rights: Everything()}}
	default:
		all.open = Everything()
	}
	return all
}

func digests(tokens []string) (all [][sha256.Size]byte) {
	for _, token := range tokens {
		all = append(all, sha256.Sum256([]byte(token)))
	}
	return all
}

// authenticate returns the rights of the caller of a call. Health needs no credentials: load
// balancers have none, and it reveals nothing about transactions.
//
// A call with a token is made by the token's caller, whichever certificate its connection has: that
// may belong to a proxy. A call without one is made by the first caller that needs no token and has
// a name of the certificate.
func (c *callers) authenticate(ctx context.Context, method string) (*Rights, error) {
	switch {
	case c.open != nil:
		return c.open, nil
	case rpc.IsHealth(method):
		return &Rights{}, nil
	}
	token := tokenIn(ctx)
	names := certificateNames(ctx)
	who := identify(ctx, c.issuers, token.text)
	var found *Rights
	for _, one := range c.credentials {
		// All are compared, so that the time reveals nothing.
		if one.hasToken(token, who) && one.hasCertificate(names) && found == nil {
			found = one.rights
		}
	}
	if found == nil {
		return nil, status.About("call", status.ErrUnauthenticated)
	}
	return found, nil
}

// result is recorded in the context of an authenticated call.
type result struct {
	by     *callers
	rights *Rights
}

type resultKey struct{}

// Authenticate returns the context of a call with its caller recorded, or an error that has the
// reason UNAUTHENTICATED.
func (a *Authenticator) Authenticate(ctx context.Context, method string) (context.Context, error) {
	c := a.current.Load()
	r, err := c.authenticate(ctx, method)
	if err != nil || c.open != nil || rpc.IsHealth(method) { // these cost nothing to repeat
		return ctx, err
	}
	return context.WithValue(ctx, resultKey{}, &result{c, r}), nil
}

// CallerOf returns the name of the caller that Authenticate recorded; "" if it has none.
func CallerOf(ctx context.Context) string {
	if r, ok := ctx.Value(resultKey{}).(*result); ok {
		return r.rights.caller
	}
	return ""
}

// Rights returns the rights of the caller of a call, as recorded by Authenticate, unless the
// callers have been replaced since.
func (a *Authenticator) Rights(ctx context.Context, method string) (*Rights, error) {
	return a.current.Load().rights(ctx, method)
}

func (c *callers) rights(ctx context.Context, method string) (*Rights, error) {
	if r, ok := ctx.Value(resultKey{}).(*result); ok && r.by == c {
		return r.rights, nil
	}
	return c.authenticate(ctx, method)
}

// shownToken is the token that a call shows.
type shownToken struct {
	headers int               // authorization headers of the call
	bearer  bool              // the only header has the scheme of bearer tokens
	text    string            // its token
	digest  [sha256.Size]byte // of its token
}

// tokenIn digests the token of a call once, not once per caller: a token may be as long as all
// headers of a call together.
func tokenIn(ctx context.Context) shownToken {
	given := metadata.ValueFromIncomingContext(ctx, AuthorizationHeader)
	if len(given) != 1 {
		return shownToken{headers: len(given)}
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	token = strings.TrimSpace(token)
	return shownToken{1, strings.EqualFold(scheme, "bearer"), token, sha256.Sum256([]byte(token))}
}

// hasToken reports whether a call shows one of the tokens, or a token of an issuer with one of the
// claims; or none, if the credential has none.
func (c credential) hasToken(shown shownToken, who *identity) bool {
	none := len(c.tokens) == 0 && len(c.claims) == 0
	if none || shown.headers != 1 {
		return none && shown.headers == 0
	}
	is := 0
	for _, token := range c.tokens {
		is |= subtle.ConstantTimeCompare(token[:], shown.digest[:])
	}
	return shown.bearer && (is == 1 || slices.ContainsFunc(c.claims, who.has))
}

func (c credential) hasCertificate(names []string) bool {
	return len(c.certificates) == 0 ||
		slices.ContainsFunc(c.certificates,
			func(name string) bool { return slices.Contains(names, name) })
}

// certificateNames returns the names of the client certificate of a call's connection, if one of
// our authorities has signed it.
func certificateNames(ctx context.Context) (names []string) {
	from, _ := peer.FromContext(ctx)
	if from == nil {
		return nil
	}
	info, isTLS := from.AuthInfo.(credentials.TLSInfo)
	if !isTLS || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	leaf := info.State.VerifiedChains[0][0]
	add := func(kind string, values ...string) {
		for _, value := range values {
			names = append(names, kind+value)
		}
	}
	add("cn:", leaf.Subject.CommonName)
	add("dns:", leaf.DNSNames...)
	add("email:", leaf.EmailAddresses...)
	for _, uri := range leaf.URIs {
		add("uri:", uri.String())
	}
	return names
}

// SetCallers replaces tokens and callers, for open streams too: a stream whose caller has no
// credentials any more, or other rights than before, ends with UNAUTHENTICATED.
func (a *Authenticator) SetCallers(tokens []string, of []Caller) {
	c := a.newCallers(tokens, of)
	a.current.Store(c)
	for _, one := range a.streams.list() {
		now, err := c.authenticate(one.ctx, one.method)
		if err != nil || !now.equal(one.rights) {
			one.cancel(status.About("call", status.ErrUnauthenticated))
		}
	}
}

// streams are the open streams.
type streams struct {
	mu  sync.Mutex
	all map[*stream]struct{}
}

type stream struct {
	ctx    context.Context // of the client
	method string
	rights *Rights
	cancel context.CancelCauseFunc
}

func (s *streams) list() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.all))
}

func (s *streams) add(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*stream]struct{}{}
	}
	s.all[one] = struct{}{}
}

func (s *streams) remove(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, one)
}

// StreamRights is Rights for a stream, which is cancelled if SetCallers takes away its caller's
// rights later. The caller of StreamRights must call closed when the stream has ended.
func (a *Authenticator) StreamRights(ctx context.Context, method string,
	cancel context.CancelCauseFunc) (r *Rights, closed func(), err error) {
	for {
		c := a.current.Load()
		if r, err = c.rights(ctx, method); err != nil {
			return nil, nil, err
		}
		one := &stream{ctx, method, r, cancel}
		a.streams.add(one)
		if a.current.Load() == c { // else SetCallers may have missed this stream
			return r, func() { a.streams.remove(one) }, nil
		}
		a.streams.remove(one)
	}
}

// Streams returns how many streams are open.
func (a *Authenticator) Streams() int { return len(a.streams.list()) }

// CancelStreams ends all open streams.
func (a *Authenticator) CancelStreams(cause error) {
	for _, one := range a.streams.list() {
		one.cancel(cause)
	}
}
