package azurekv_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/azurekv"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/txn"
)

// The client is the real one, and the server speaks the protocol of Key Vault.
func TestSuite(t *testing.T) {
	t.Parallel()
	signtest.Run(t, signtest.Subject{
		Digests: true,
		Open: func(t *testing.T, s *signtest.Script) sign.Holder {
			server := httptest.NewTLSServer(&peer{s})
			t.Cleanup(server.Close)
			d, err := azurekv.Open(azurekv.Options{
				VaultURL:   server.URL,
				Credential: credential{},
				Transport:  server.Client(),
				AnyHost:    true,
			})
			if err != nil {
				t.Fatal(err)
			}
			return sign.NewDigestHolder(d, signtest.Keys(t, true, "account/v1", "absent/v1"))
		},
	})
}

// credential is a credential with a token of its own.
type credential struct{}

func (credential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken,
	error) {
	return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// The reply of the service that issues tokens does not get into errors, and so into logs.
func TestLogin_Refused_NoReplyInError(t *testing.T) {
	t.Parallel()
	vault := httptest.NewTLSServer(&peer{signtest.NewScript(t)})
	t.Cleanup(vault.Close)
	const secret = "assertion-4711"
	login := transport(func(r *http.Request) (*http.Response, error) {
		body, code := `{"error":"invalid_client","error_description":"`+secret+`"}`, 401
		if !strings.Contains(r.URL.Path, "/token") {
			body, code = `{"tenant_discovery_endpoint":"https://login.microsoftonline.com/t/v2.0/`+
				`.well-known/openid-configuration","authorization_endpoint":"https://`+
				`login.microsoftonline.com/t/oauth2/v2.0/authorize","token_endpoint":"https://`+
				`login.microsoftonline.com/t/oauth2/v2.0/token","issuer":"https://`+
				`login.microsoftonline.com/t/v2.0"}`, 200
		}
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Request: r,
			Header: http.Header{"Content-Type": {"application/json"}},
			Body:   io.NopCloser(strings.NewReader(body))}, nil
	})
	credential, err := azidentity.NewClientSecretCredential("tenant", "client", "password",
		&azidentity.ClientSecretCredentialOptions{DisableInstanceDiscovery: true,
			ClientOptions: azcore.ClientOptions{Transport: login}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := azurekv.Open(azurekv.Options{VaultURL: vault.URL, Credential: credential,
		Transport: vault.Client(), AnyHost: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.PublicKey(t.Context(), "account/v1")
	if !errors.Is(err, txn.ErrUnavailable) || strings.Contains(err.Error(), secret) ||
		strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
		t.Errorf("refused login: %v", err)
	}
}

// transport answers requests in place of a server.
type transport func(*http.Request) (*http.Response, error)

func (t transport) Do(r *http.Request) (*http.Response, error) { return t(r) }

// peer is a vault that behaves as a script.
type peer struct{ script *signtest.Script }

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer token" {
		w.Header().Set("WWW-Authenticate", `Bearer authorization="https://login.example/tenant", `+
			`resource="https://vault.azure.net"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(r.Body) // the server notices a client that leaves only after this
	if err != nil {
		return
	}
	path, known := strings.CutPrefix(r.URL.Path, "/keys/account/v1")
	switch fault := p.script.Fault(); {
	case !known, fault == signtest.Missing:
		fail(w, http.StatusNotFound, "KeyNotFound")
		return
	case fault == signtest.Hangs:
		p.script.Hang(r.Context())
		return
	case fault == signtest.Throttled:
		fail(w, http.StatusTooManyRequests, "Throttled")
		return
	case fault == signtest.Broken:
		fail(w, http.StatusInternalServerError, "InternalError")
		return
	case fault == signtest.Denied:
		fail(w, http.StatusForbidden, "Forbidden")
		return
	case fault == signtest.Reset:
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			if inner, ok := conn.(interface{ NetConn() net.Conn }); ok {
				conn = inner.NetConn()
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
		return
	}
	encode := base64.RawURLEncoding.EncodeToString
	switch path {
	case "":
		point := crypto.FromECDSAPub(p.script.Public())
		write(w, map[string]any{"key": map[string]any{"kty": "EC", "crv": "P-256K",
			"kid": "https://vault.example/keys/account/v1",
			"x":   encode(point[1:33]), "y": encode(point[33:])}})
	case "/sign":
		var call struct{ Alg, Value string }
		_ = json.Unmarshal(body, &call)
		digest, err := base64.RawURLEncoding.DecodeString(call.Value)
		if err != nil || call.Alg != "ES256K" || len(digest) != 32 {
			fail(w, http.StatusBadRequest, "BadParameter")
			return
		}
		write(w, map[string]any{"kid": "https://vault.example/keys/account/v1",
			"value": encode(p.script.Raw(digest))})
	default:
		fail(w, http.StatusBadRequest, "BadParameter")
	}
}

func fail(w http.ResponseWriter, code int, kind string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	write(w, map[string]any{"error": map[string]any{"code": kind, "message": "scripted"}})
}

func write(w http.ResponseWriter, body any) { _ = json.NewEncoder(w).Encode(body) }
