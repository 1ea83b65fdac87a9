package auth

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/fencepost/fencepost/internal/clock"
)

// Claim is a claim of a JSON web token that identifies a caller.
type Claim struct {
	Issuer      string // name of the issuer in the configuration
	Name, Value string
}

// IssuerOptions configure an issuer of tokens.
type IssuerOptions struct {
	Name     string // in the configuration
	URL      string
	Audience string        // that its tokens must have
	Skew     time.Duration // how long a token is accepted after it has expired
	Refresh  time.Duration // between two reads of the keys
	Gap      time.Duration // the least time between them, whatever tokens arrive; 0: 5 s
	Client   *http.Client
	Logger   *slog.Logger
	Clock    clock.Clock // nil: the real one
}

// Issuer verifies the tokens of one issuer (OpenID Connect). No call waits for the issuer: Run
// reads its keys, and while it is unavailable the last keys stay in force.
type Issuer struct {
	o        IssuerOptions
	verifier atomic.Pointer[keyring]
	wanted   chan struct{} // a token had an unknown key
}

// keyring is the keys of an issuer at one time.
type keyring struct {
	verifier *oidc.IDTokenVerifier
	ids      []string
}

// algorithms are those that a token may be signed with: none of them has a shared secret.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// NewIssuer returns an issuer without keys, which refuses all tokens until Run has read them.
func NewIssuer(o IssuerOptions) *Issuer {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Gap == 0 {
		o.Gap = keyGap
	}
	return &Issuer{o: o, wanted: make(chan struct{}, 1)}
}

const (
	keyGap = 5 * time.Second
	// keyLimit bounds one read, maxKeyBytes its response.
	keyLimit    = 10 * time.Second
	maxKeyBytes = 1 << 20
	// maxJWT is the longest token that is verified, in bytes.
	maxJWT = 8 << 10
)

// Run reads the keys of the issuer until ctx ends: regularly, and when a token has a key that is
// unknown.
func (i *Issuer) Run(ctx context.Context) error {
	failed := false
	for {
		err := i.read(ctx)
		wait := i.o.Refresh
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			wait = i.o.Gap
			if !failed {
				i.o.Logger.Warn("reading the keys of an issuer failed; retrying", "issuer",
					i.o.Name, "error", err)
			}
		case failed:
			i.o.Logger.Info("keys of an issuer read", "issuer", i.o.Name)
		}
		failed = err != nil
		if !i.rest(ctx, wait) {
			return nil
		}
	}
}

// rest waits for the next read, at least the gap; false: ctx has ended.
func (i *Issuer) rest(ctx context.Context, wait time.Duration) bool {
	gap, next := i.o.Clock.NewTimer(i.o.Gap), i.o.Clock.NewTimer(wait)
	defer gap.Stop()
	defer next.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-gap.C:
	}
	select {
	case <-ctx.Done():
		return false
	case <-next.C:
	case <-i.wanted:
	}
	return true
}

// read replaces the keys by those that the issuer publishes.
func (i *Issuer) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, i.o.Client), keyLimit)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, i.o.URL)
	if err != nil {
		return err
	}
	var meta struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&meta); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, meta.Keys, nil)
	if err != nil {
		return err
	}
	response, err := i.o.Client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("keys: HTTP status %d", response.StatusCode)
	}
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(io.LimitReader(response.Body, maxKeyBytes)).Decode(&set); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	keys, ring := &oidc.StaticKeySet{}, &keyring{}
	for _, k := range set.Keys {
		if k.Valid() && k.IsPublic() && (k.Use == "" || k.Use == "sig") {
			keys.PublicKeys = append(keys.PublicKeys, crypto.PublicKey(k.Key))
			ring.ids = append(ring.ids, k.KeyID)
		}
	}
	if len(keys.PublicKeys) == 0 {
		return errors.New("keys: the issuer publishes none")
	}
	ring.verifier = oidc.NewVerifier(i.o.URL, keys, &oidc.Config{
		ClientID:             i.o.Audience,
		SupportedSigningAlgs: algorithms,
		Now:                  func() time.Time { return i.o.Clock.Now().Add(-i.o.Skew) },
	})
	i.verifier.Store(ring)
	return nil
}

// verify returns the claims of a token of this issuer; nil: it is none, or not valid now.
func (i *Issuer) verify(ctx context.Context, token string) map[string]any {
	ring := i.verifier.Load()
	if ring == nil {
		return nil
	}
	verified, err := ring.verifier.Verify(ctx, token)
	if err != nil {
		i.wantKeys(ring, token)
		return nil
	}
	var claims map[string]any
	if verified.Claims(&claims) != nil {
		return nil
	}
	return claims
}

// wantKeys has the keys read again if a token names one that is unknown: the issuer may have
// replaced its keys.
func (i *Issuer) wantKeys(ring *keyring, token string) {
	var accepted []jose.SignatureAlgorithm
	for _, name := range algorithms {
		accepted = append(accepted, jose.SignatureAlgorithm(name))
	}
	signed, err := jose.ParseSigned(token, accepted)
	if err != nil || len(signed.Signatures) != 1 ||
		slices.Contains(ring.ids, signed.Signatures[0].Header.KeyID) {
		return
	}
	select {
	case i.wanted <- struct{}{}:
	default:
	}
}

// identity is who a verified token names.
type identity struct {
	issuer string
	claims map[string]any
}

// identify verifies the token of a call; nil: it is not a valid token of an issuer.
func identify(ctx context.Context, issuers []*Issuer, token string) *identity {
	if len(token) > maxJWT || strings.Count(token, ".") != 2 {
		return nil
	}
	for _, i := range issuers {
		if claims := i.verify(ctx, token); claims != nil {
			return &identity{i.o.Name, claims}
		}
	}
	return nil
}

// has reports whether a token has a claim: with this value, or in a list of values.
func (id *identity) has(c Claim) bool {
	if id == nil || id.issuer != c.Issuer {
		return false
	}
	switch value := id.claims[c.Name].(type) {
	case string:
		return value == c.Value
	case []any:
		return slices.ContainsFunc(value, func(one any) bool { return one == c.Value })
	}
	return false
}
