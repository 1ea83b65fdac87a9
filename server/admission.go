package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"

	"google.golang.org/grpc/metadata"
)

// errStranger says that a caller has shown no token that is known.
var errStranger = errors.New("the caller is not known")

// healthPrefix is what the methods of health begin with.
const healthPrefix = "/grpc.health.v1."

// authorizationHeader is where a token comes, over gRPC as over HTTP.
const authorizationHeader = "authorization"

// admission knows the tokens that let a caller in, as digests: they have one length, so that how long a comparison takes tells nothing. None: everybody may call.
type admission [][sha256.Size]byte

func newAdmission(tokens []string) (a admission) {
	for _, token := range tokens {
		a = append(a, sha256.Sum256([]byte(token)))
	}
	return a
}

// admit refuses a call without a token that is known. Health is for everybody: load balancers have no tokens, and it tells nothing of anybody's business.
func (a admission) admit(ctx context.Context, method string) error {
	if len(a) == 0 || strings.HasPrefix(method, healthPrefix) {
		return nil
	}
	given := metadata.ValueFromIncomingContext(ctx, authorizationHeader)
	if len(given) != 1 {
		return on("call", errStranger)
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	digest, known := sha256.Sum256([]byte(strings.TrimSpace(token))), 0
	for _, one := range a {
		known |= subtle.ConstantTimeCompare(one[:], digest[:])
	}
	if known != 1 || !strings.EqualFold(scheme, "bearer") {
		return on("call", errStranger)
	}
	return nil
}
