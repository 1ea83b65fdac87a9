package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/metadata"
)

// testIssuer is an issuer of tokens in this process.
type testIssuer struct {
	t      *testing.T
	server *httptest.Server
	keys   atomic.Pointer[jose.JSONWebKeySet]
	down   atomic.Bool
	reads  atomic.Int64 // of the keys
}

func newTestIssuer(t *testing.T) *testIssuer {
	i := &testIssuer{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration",
		func(w http.ResponseWriter, _ *http.Request) {
			i.answer(w, map[string]any{"issuer": i.server.URL, "jwks_uri": i.server.URL + "/keys"})
		})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.reads.Add(1)
		i.answer(w, i.keys.Load())
	})
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	return i
}

func (i *testIssuer) answer(w http.ResponseWriter, value any) {
	if i.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		i.t.Error(err)
	}
}

// newKey makes a key, which replaces the others of the issuer if it publishes it.
func (i *testIssuer) newKey(id string, publish bool) jose.JSONWebKey {
	i.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"}
	if publish {
		i.keys.Store(&jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	}
	return key
}

// claims are those of a valid token, changed by some others.
func (i *testIssuer) claims(change map[string]any) map[string]any {
	all := map[string]any{
		"iss": i.server.URL, "aud": "fencepost", "sub": "payments",
		"exp": time.Now().Add(time.Hour).Unix(), "groups": []string{"a", "treasury"},
	}
	for name, value := range change {
		all[name] = value
	}
	return all
}

func (i *testIssuer) sign(alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	i.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

const staticToken = "static-0123456789abcdef"

// authenticator accepts tokens of the issuer.
func (i *testIssuer) authenticator() *Authenticator {
	issuer := NewIssuer(IssuerOptions{Name: "corp", URL: i.server.URL, Audience: "fencepost",
		Skew: time.Minute, Refresh: time.Hour, Gap: 10 * time.Millisecond,
		Client: i.server.Client(), Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(i.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := issuer.Run(ctx); err != nil {
			i.t.Error(err)
		}
	}()
	i.t.Cleanup(func() { cancel(); <-ended })
	return NewAuthenticator(nil, []Caller{
		{Name: "shop", Claims: []Claim{{"corp", "sub", "payments"}}},
		{Name: "desk", Claims: []Claim{{"corp", "groups", "treasury"}}},
		{Name: "static", Tokens: []string{staticToken}},
	}, issuer)
}

// callerOf returns the caller of a token; empty: it is refused.
func callerOf(a *Authenticator, token string) string {
	ctx := metadata.NewIncomingContext(context.Background(),
		metadata.Pairs(AuthorizationHeader, "Bearer "+token))
	r, err := a.Rights(ctx, "/fencepost.v1.TxService/GetTx")
	if err != nil {
		return ""
	}
	return r.Caller()
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal(what + " does not come about")
		}
	}
}

func TestIssuer_Tokens(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	key := i.newKey("k1", true)
	a := i.authenticator()
	token := func(change map[string]any) string { return i.sign(jose.ES256, key, i.claims(change)) }
	eventually(t, "a valid token is accepted", func() bool {
		return callerOf(a, token(nil)) == "shop"
	})
	part := base64.RawURLEncoding.EncodeToString
	text, err := json.Marshal(i.claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	public, err := json.Marshal(i.keys.Load().Keys[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ token, want string }{
		"valid":               {token(nil), "shop"},
		"one of two":          {token(map[string]any{"sub": "x"}), "desk"},
		"several audiences":   {token(map[string]any{"aud": []string{"x", "fencepost"}}), "shop"},
		"expired within skew": {token(map[string]any{"exp": now.Unix() - 20}), "shop"},
		"expired":             {token(map[string]any{"exp": now.Unix() - 120}), ""},
		"no expiry":           {token(map[string]any{"exp": 0}), ""},
		"of the future":       {token(map[string]any{"nbf": now.Add(time.Hour).Unix()}), ""},
		"other audience":      {token(map[string]any{"aud": "x"}), ""},
		"other issuer":        {token(map[string]any{"iss": "https://x.example"}), ""},
		"no known claim":      {token(map[string]any{"sub": "x", "groups": []string{"a"}}), ""},
		"a number for a text": {token(map[string]any{"sub": 1, "groups": 1}), ""},
		"other key":           {i.sign(jose.ES256, i.newKey("k1", false), i.claims(nil)), ""},
		"no algorithm":        {part([]byte(`{"alg":"none"}`)) + "." + part(text) + ".", ""},
		"shared secret":       {i.sign(jose.HS256, public, i.claims(nil)), ""},
		"no token":            {"a.b.c", ""},
		"static token":        {staticToken, "static"},
	} {
		if got := callerOf(a, c.token); got != c.want {
			t.Errorf("%s: caller %q, want %q", name, got, c.want)
		}
	}
}

// TestIssuer_Unavailable_OthersServed: without the issuer, its tokens are refused until its keys
// were read once, and accepted afterwards; other callers are never affected.
func TestIssuer_Unavailable_OthersServed(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	i.down.Store(true)
	key := i.newKey("k1", true)
	a := i.authenticator()
	token := i.sign(jose.ES256, key, i.claims(nil))
	if got := callerOf(a, token); got != "" {
		t.Errorf("without keys: caller %q", got)
	}
	if got := callerOf(a, staticToken); got != "static" {
		t.Errorf("static token: caller %q", got)
	}
	i.down.Store(false)
	eventually(t, "the token is accepted", func() bool { return callerOf(a, token) == "shop" })
	i.down.Store(true)
	if got := callerOf(a, token); got != "shop" {
		t.Errorf("with the last keys: caller %q", got)
	}
}

// TestIssuer_KeysReplaced_ReadAgain: a token with an unknown key has the keys read again; a key
// that is not published any more is refused.
func TestIssuer_KeysReplaced_ReadAgain(t *testing.T) {
	t.Parallel()
	i := newTestIssuer(t)
	first := i.sign(jose.ES256, i.newKey("k1", true), i.claims(nil))
	a := i.authenticator()
	eventually(t, "the first key is read", func() bool { return callerOf(a, first) == "shop" })
	reads := i.reads.Load()
	second := i.sign(jose.ES256, i.newKey("k2", true), i.claims(nil))
	eventually(t, "the second key is read", func() bool { return callerOf(a, second) == "shop" })
	if i.reads.Load() == reads {
		t.Error("the keys were not read again")
	}
	if got := callerOf(a, first); got != "" {
		t.Errorf("a key that was withdrawn: caller %q", got)
	}
}
