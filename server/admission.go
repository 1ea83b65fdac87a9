package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/fencepost/fencepost/server/rpc"
	"github.com/fencepost/fencepost/server/status"
)

// authorizationHeader is where a token comes, over gRPC as over HTTP.
const authorizationHeader = "authorization"

// A call is admitted at the door, before room is taken for it and anything is read of its request: for gRPC that is tap, for HTTP ServeHTTP. What the door has found is
// noted with the call, so that an interceptor, which begins when the request is there, finds out nothing twice; but it asks who the callers are by then.

// admission finds out whose call it is. It never changes: Server.SetCallers puts another in its place.
type admission struct {
	open   *rights // of everybody, where nobody has to show anything; else nil
	passes []pass
}

// pass is what lets a caller in.
type pass struct {
	tokens       [][sha256.Size]byte // digests: they have one length, so that how long a comparison takes tells nothing
	certificates []string
	rights       *rights
}

// newAdmission knows the callers, else whoever has one of the tokens, who may do everything; where there are neither, everybody may.
func newAdmission(tokens []string, callers []Caller) *admission {
	a := &admission{}
	switch {
	case len(callers) > 0:
		for _, c := range callers {
			a.passes = append(a.passes, pass{digests(c.Tokens), c.Certificates, rightsOf(c)})
		}
	case len(tokens) > 0:
		a.passes = []pass{{tokens: digests(tokens), rights: everything()}}
	default:
		a.open = everything()
	}
	return a
}

func digests(tokens []string) (all [][sha256.Size]byte) {
	for _, token := range tokens {
		all = append(all, sha256.Sum256([]byte(token)))
	}
	return all
}

// admit gives the rights of whoever makes a call. Health is for everybody: load balancers have no tokens, and it tells nothing of anybody's business.
//
// A call with a token is that of the token's caller, whatever certificate its connection has, which may be that of a proxy. One without is that of the first caller
// who needs none and has a name of the certificate.
func (a *admission) admit(ctx context.Context, method string) (*rights, error) {
	switch {
	case a.open != nil:
		return a.open, nil
	case rpc.IsHealth(method):
		return &rights{}, nil
	}
	given := shownIn(ctx)
	names := certificateNames(ctx)
	var found *rights
	for _, p := range a.passes {
		if p.hasToken(given) && p.hasCertificate(names) &&
			found == nil { // all are compared, so that the time tells nothing
			found = p.rights
		}
	}
	if found == nil {
		return nil, status.About("call", status.ErrUnauthenticated)
	}
	return found, nil
}

// entry is what the door has found out about a call.
type entry struct {
	by     *admission
	rights *rights
}

type entryKey struct{}

// letIn admits a call at the door, and notes with it whose it is.
func (s *Server) letIn(ctx context.Context, method string) (context.Context, error) {
	a := s.admission.Load()
	r, err := a.admit(ctx, method)
	if err != nil || a.open != nil ||
		rpc.IsHealth(method) { // what is found at once is not worth a note
		return ctx, err
	}
	return context.WithValue(ctx, entryKey{}, &entry{a, r}), nil
}

// whose gives the rights of a call that the door let in: those found there, unless the callers are others by now.
func (a *admission) whose(ctx context.Context, method string) (*rights, error) {
	if e, noted := ctx.Value(entryKey{}).(*entry); noted && e.by == a {
		return e.rights, nil
	}
	return a.admit(ctx, method)
}

// shown is what a call shows of tokens.
type shown struct {
	headers int
	bearer  bool              // it is one, and of that scheme
	digest  [sha256.Size]byte // of its token
}

// shownIn digests the token of a call, once for all whom it may be of: it may be as long as the head of a call.
func shownIn(ctx context.Context) shown {
	given := metadata.ValueFromIncomingContext(ctx, authorizationHeader)
	if len(given) != 1 {
		return shown{headers: len(given)}
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	return shown{
		1,
		strings.EqualFold(scheme, "bearer"),
		sha256.Sum256([]byte(strings.TrimSpace(token))),
	}
}

// hasToken tells whether a call shows one of the tokens, or none where there are none to show.
func (p pass) hasToken(given shown) bool {
	if len(p.tokens) == 0 || given.headers != 1 {
		return len(p.tokens) == 0 && given.headers == 0
	}
	is := 0
	for _, one := range p.tokens {
		is |= subtle.ConstantTimeCompare(one[:], given.digest[:])
	}
	return is == 1 && given.bearer
}

func (p pass) hasCertificate(names []string) bool {
	return len(p.certificates) == 0 ||
		slices.ContainsFunc(p.certificates,
			func(name string) bool { return slices.Contains(names, name) })
}

// certificateNames are those of the certificate that a call's connection has shown, if an authority of ours has signed it.
func certificateNames(ctx context.Context) (names []string) {
	from, _ := peer.FromContext(ctx)
	if from == nil {
		return nil
	}
	shown, isTLS := from.AuthInfo.(credentials.TLSInfo)
	if !isTLS || len(shown.State.VerifiedChains) == 0 {
		return nil
	}
	leaf := shown.State.VerifiedChains[0][0]
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

// SetCallers replaces tokens and callers by others. They count from now on, for streams under way too: one whose caller has nothing any more that lets it in, or is
// another now, ends with UNAUTHENTICATED.
func (s *Server) SetCallers(tokens []string, callers []Caller) {
	a := newAdmission(tokens, callers)
	s.admission.Store(a)
	for _, one := range s.admitted.list() {
		if now, err := a.admit(one.ctx, one.method); err != nil || !now.same(one.rights) {
			one.cut(status.About("call", status.ErrUnauthenticated))
		}
	}
}

// admitted are the streams that were let in.
type admitted struct {
	mu      sync.Mutex
	streams map[*stream]struct{}
}

type stream struct {
	ctx    context.Context // of the caller
	method string
	rights *rights
	cut    func(error)
}

func (a *admitted) list() []*stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.streams))
}

func (a *admitted) add(s *stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.streams == nil {
		a.streams = map[*stream]struct{}{}
	}
	a.streams[s] = struct{}{}
}

func (a *admitted) remove(s *stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.streams, s)
}

// admitStream finds out whose a stream is, which is cut if it would not be let in any more later on. Gone must be called when it has ended.
func (s *Server) admitStream(ctx context.Context, method string,
	cut func(error)) (r *rights, gone func(), err error) {
	for {
		a := s.admission.Load()
		if r, err = a.whose(ctx, method); err != nil {
			return nil, nil, err
		}
		one := &stream{ctx, method, r, cut}
		s.admitted.add(one)
		if s.admission.Load() == a { // else nobody may have looked at it
			return r, func() { s.admitted.remove(one) }, nil
		}
		s.admitted.remove(one)
	}
}
