package awskms_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/awskms"
	"github.com/fencepost/fencepost/sign/signtest"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// The client is the real one, and the server speaks the protocol of KMS.
func TestSuite(t *testing.T) {
	t.Parallel()
	signtest.Run(t, signtest.Subject{
		Digests: true,
		Open: func(t *testing.T, s *signtest.Script) sign.Holder {
			server := httptest.NewServer(&peer{s})
			t.Cleanup(server.Close)
			return open(t, server.URL, signtest.Keys(t, true))
		},
	})
}

func open(t *testing.T, endpoint string, keys *sign.KeyList) sign.Holder {
	t.Helper()
	d, err := awskms.Open(t.Context(), awskms.Options{Region: "eu-west-2", Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	return sign.NewDigestHolder(d, keys)
}

// peer is a KMS that behaves as a script.
type peer struct{ script *signtest.Script }

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		KeyID            string `json:"KeyId"`
		Message          []byte `json:"Message"`
		MessageType      string `json:"MessageType"`
		SigningAlgorithm string `json:"SigningAlgorithm"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		fail(w, http.StatusBadRequest, "SerializationException")
		return
	}
	switch fault := p.script.Fault(); {
	case call.KeyID != "account", fault == signtest.Missing:
		fail(w, http.StatusBadRequest, "NotFoundException")
		return
	case fault == signtest.Hangs:
		p.script.Hang(r.Context())
		return
	case fault == signtest.Throttled:
		fail(w, http.StatusBadRequest, "ThrottlingException")
		return
	case fault == signtest.Broken:
		fail(w, http.StatusInternalServerError, "KMSInternalException")
		return
	case fault == signtest.Denied:
		fail(w, http.StatusBadRequest, "AccessDeniedException")
		return
	case fault == signtest.Reset:
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	switch r.Header.Get("X-Amz-Target") {
	case "TrentService.GetPublicKey":
		write(w, map[string]any{"KeyId": "account", "PublicKey": p.script.SPKI(),
			"KeySpec": "ECC_SECG_P256K1", "KeyUsage": "SIGN_VERIFY"})
	case "TrentService.Sign":
		if call.MessageType != "DIGEST" || call.SigningAlgorithm != "ECDSA_SHA_256" ||
			len(call.Message) != 32 {
			fail(w, http.StatusBadRequest, "ValidationException")
			return
		}
		write(w, map[string]any{"KeyId": "account", "Signature": p.script.DER(call.Message),
			"SigningAlgorithm": call.SigningAlgorithm})
	default:
		fail(w, http.StatusBadRequest, "UnsupportedOperationException")
	}
}

func fail(w http.ResponseWriter, code int, kind string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(code)
	write(w, map[string]any{"__type": kind, "message": "scripted"})
}

func write(w http.ResponseWriter, body any) { _ = json.NewEncoder(w).Encode(body) }
