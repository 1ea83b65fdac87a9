package server

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/web"
)

// wantFault checks that a status has a violation of a field whose description contains message.
func wantFault(t testing.TB, s *grpcstatus.Status, field, message string) {
	t.Helper()
	for _, d := range s.Details() {
		if b, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range b.GetFieldViolations() {
				if v.GetField() == field && strings.Contains(v.GetDescription(), message) {
					return
				}
			}
		}
	}
	t.Errorf("%v: no violation of %s with %q", s.Proto(), field, message)
}

func withData(id, data string) string {
	return `{"submitter":"alice","requestId":"` + id + `",` +
		`"payload":{"to":"` + recipient + `","data":"` + data + `"}}`
}

// badBytes are values that protojson accepts, most of them as other bytes than intended.
var badBytes = map[string]string{
	"0xd09de08a": "looks like hex", "0Xd09de08a": "looks like hex", "0xd09de08A": "looks like hex",
	"0x": "looks like hex", "0xAbCdEf0123": "looks like hex", "0xd09de08": "looks like hex",
	"a9059cbb" + strings.Repeat("0", 128): "looks like hex",
	"6080604052348015600e575f5ffd5b50":    "looks like hex",
	`\u0030xd09de08a`:                     "looks like hex",

	"AQJ=": "encoder", "AQJ": "encoder", "AR": "encoder", "AR==": "encoder", "-_9": "encoder",
	"AQI==": "encoder", "AQ=": "encoder", "A": "encoder", "A Q=": "encoder", "-/8=": "encoder",
}

func TestBytes_Hex_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	for data, message := range badBytes {
		s := n.http("POST", "/api/v1/tx", withData("r", data)).wantError(t, 400,
			codes.InvalidArgument, "INVALID_FIELD")
		wantFault(t, s, "payload.data", message)
		batch := `{"requests":[` + withData("a", "AQI=") + `,` + withData("b", data) + `]}`
		s = n.http("POST", "/api/v1/tx/batch", batch).wantError(t, 400, codes.InvalidArgument,
			"INVALID_FIELD")
		wantFault(t, s, "requests[1].payload.data", message)
		a := n.http("POST", pb.TxService_CreateTx_FullMethodName, withData("r", data))
		if a.code != 400 || a.field(t, "code") != "invalid_argument" ||
			!strings.Contains(a.field(t, "message"), message) {
			t.Errorf("Connect: %s: %d %s", data, a.code, a.body)
		}
		a = n.http("POST", pb.TxService_CreateTx_FullMethodName, framed(withData("r", data)),
			"Content-Type", "application/grpc-web+json")
		if received := strings.ToLower(fmt.Sprint(a.header, string(a.body))); !strings.Contains(
			strings.ReplaceAll(received, " ", ""), "grpc-status:3") &&
			!strings.Contains(received, "grpc-status:[3]") {
			t.Errorf("gRPC-Web: %s: %s", data, received)
		}
	}
	if rows := h.count("managed_tx"); rows != 0 {
		t.Errorf("%d transactions with misread bytes", rows)
	}
}

// framed returns a message in a gRPC-Web frame.
func framed(text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text)))) + text
}

func TestBytes_Base64Variants_Accepted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.register("alice")
	n := h.serve()
	i := 0
	for data, want := range map[string]string{
		"AQI=": "0102", "AQI": "0102", "AQ==": "01", "AQ": "01", "AQID": "010203",
		"-_8=": "fbff", "-_8": "fbff", "+/8=": "fbff", "+/8": "fbff", `+\/8`: "fbff",
		strings.Repeat("A", 64):                    strings.Repeat("00", 48),
		"a9059cbbAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": "6bdd39f5c6db" + strings.Repeat("00", 24),
		"6080604052348015600e575f5ffd":             "eb4f34eb4e34e76df8f34d79eb4d1ee7be5fe5f7dd",
		"0x2d4A==":                                 "d31d9de0", "0x2d4Q": "d31d9de1", "": "",
	} {
		i++
		a := n.http("POST", "/api/v1/tx", withData(fmt.Sprint("r", i), data))
		a.want(t, 202)
		tx := &pb.GetTxResponse{}
		n.must(
			web.NewJSONCodec(nil).Unmarshal(n.http("GET", "/api/v1/tx/"+a.field(t, "tx.txId"),
				"").body,
				tx),
		)
		if got := tx.GetTx().GetPayload().GetData(); hex.EncodeToString(got) != want {
			t.Errorf("%s is read as %x, want %s", data, got, want)
		}
		a = n.http("POST", pb.TxService_CreateTx_FullMethodName,
			framed(withData(fmt.Sprint("r", i), data)), "Content-Type", "application/grpc-web+json")
		if !bytes.Contains(a.body, []byte("requestId")) {
			t.Errorf("gRPC-Web: %s: %v %s", data, a.header, a.body)
		}
	}
}

func TestJSON_InvalidValue_FieldAndRemedy(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve()
	in := func(payload string) string {
		return `{"submitter":"alice","requestId":"r","payload":{` + payload + `}}`
	}
	for _, c := range []struct{ path, body, reason, field, message string }{
		{"tx", in(`"value":1.5`), "INVALID_FIELD", "payload.value", "a decimal string of wei"},
		{"tx", in(`"value":1`), "INVALID_FIELD", "payload.value", "a decimal string of wei"},
		{"tx", in(`"to":7`), "INVALID_FIELD", "payload.to", "in quotes"},
		{"tx", in(`"nonce":1`),
			"UNKNOWN_FIELD", "payload.nonce", "Fencepost assigns the nonce; remove"},
		{"tx", in(`"from":"0x"`), "UNKNOWN_FIELD", "payload.from", "the sender is the submitter"},
		{"tx", `{"submitter":"alice","nonce":7}`, "UNKNOWN_FIELD", "nonce", "NonceService"},
		{"tx", `{"from":"0x"}`, "UNKNOWN_FIELD", "from", "the sender is the submitter"},
		{"tx/simulate", `{"nonce":7}`, "UNKNOWN_FIELD", "nonce", "NonceService"},
		{"tx/batch", `{"requests":[{"nonce":"1"}]}`, "UNKNOWN_FIELD", "requests[0].nonce",
			"Fencepost assigns the nonce"},
		{"tx/batch", `{"nonce":"1"}`, "UNKNOWN_FIELD", "nonce", "update the server"},
		{"tx", "{\"submitter\":\"caf\xe9\"}", "INVALID_FIELD", "request",
			"must be UTF-8, unlike byte 0xe9 at offset 17; encode"},
		{"tx", "{\"\xff\":1}", "INVALID_FIELD", "request", "must be UTF-8"},
		{"tx", in(`"gas":"1"`), "UNKNOWN_FIELD", "payload.gas", "update the server"},
		{"tx", `{"terms":{"maxFee":1.5}}`,
			"INVALID_FIELD", "terms.max_fee", "a decimal string of wei"},
		{"tx", `{"labels":{"a":1}}`, "INVALID_FIELD", `labels["a"]`, "in quotes"},
		{"tx", `{"labels":{"a" : null}}`, "INVALID_FIELD", `labels["a"]`, "must not be null"},
		{"tx/batch", `{"requests":[{}, null]}`, "INVALID_FIELD", "requests[1]", "must not be null"},
		{"tx/batch", `{"requests":[{},` + in(`"nonce":"1"`) + `]}`,
			"UNKNOWN_FIELD", "requests[1].payload.nonce", "Fencepost assigns the nonce"},
		{"submitters/alice/exit-protect", `{"decision":"STOP"}`,
			"INVALID_FIELD", "decision", "must be one of PROTECTION_DECISION_"},
		{"tx", in(`"gasLimit":"lots"`),
			"INVALID_FIELD", "payload.gas_limit", "from 0 to 18446744073709551615"},
		{"tx", in(`"gasLimit":-1`), "INVALID_FIELD", "payload.gas_limit", "must be a whole number"},
		{"tx", in(`"gasLimit":true`),
			"INVALID_FIELD", "payload.gas_limit", "must be a whole number"},
		{"tx", in(`"gasLimit":{"a":1}`),
			"INVALID_FIELD", "payload.gas_limit", "must be a whole number"},
		{"tx", in(`"gasLimit":"18446744073709551616"`),
			"INVALID_FIELD", "payload.gas_limit", "must be a whole number"},
		{"tx", in(`"data":7`), "INVALID_FIELD", "payload.data", "base64"},
		{"tx", in(`"data":["AA=="]`), "INVALID_FIELD", "payload.data", "base64"},
		{"tx", in(`"to":["0x"]`), "INVALID_FIELD", "payload.to", "in quotes"},
		{"tx", `{"terms":{"notAfter":7}}`,
			"INVALID_FIELD", "terms.not_after", "must be a time like 2026-01-02T15:04:05Z"},
		{"tx", `{"terms":{"notAfter":"tomorrow"}}`,
			"INVALID_FIELD", "terms.not_after", "must be a time like 2026-01-02T15:04:05Z"},
		{"tx", `{"terms":{"notAfter":{"seconds":1}}}`,
			"INVALID_FIELD", "terms.not_after", "must be a time like"},
		{"tx", `{"terms":{"cancelLate":"yes"}}`,
			"INVALID_FIELD", "terms.cancel_late", "must be true or false"},
		{"tx", `{"terms":{"speed":true}}`, "INVALID_FIELD", "terms.speed", "must be one of "},
		{"tx", `{"terms":{"speed":1.5}}`, "INVALID_FIELD", "terms.speed", "must be one of "},
		{"tx", `{"payload":7}`, "INVALID_FIELD", "payload", "must be an object"},
		{"tx", `{"labels":["a"]}`, "INVALID_FIELD", "labels", "must be an object"},
		{"tx/batch", `{"requests":{}}`, "INVALID_FIELD", "requests", "must be a list"},
		{"tx/batch", `{"requests":[{},` + in(`"gasLimit":"lots"`) + `]}`,
			"INVALID_FIELD", "requests[1].payload.gas_limit", "must be a whole number"},
		{"tx", `[]`, "INVALID_FIELD", "request", `a JSON object like {"submitter": "..."}: `},
		{"tx", `submitter=alice`, "INVALID_FIELD", "request", `like {"submitter": "..."}: `},
		{"tx/batch", `{requests:[]}`, "INVALID_FIELD", "request", `like {"requests": [...]}: `},
		{"tx", `{"submitter":alice}`, "INVALID_FIELD", "submitter", "must be a string, in quotes"},
		{"tx", in(`"value":0x10`), "INVALID_FIELD", "payload.value", "a decimal string of wei"},
		{"tx", `{"labels":{"team":payments}}`,
			"INVALID_FIELD", `labels["team"]`, "must be a string, in quotes"},
		{"tx/batch", `{"requests":[{},` + in(`"gasLimit":'1'`) + `]}`,
			"INVALID_FIELD", "requests[1].payload.gas_limit", "must be a whole number"},
		{"tx", `{"submitter":"alice"`, "INVALID_FIELD", "request", "ends early"},
		{"tx", `{`, "INVALID_FIELD", "request", "ends early"},
		{"tx", `{"submitter":"alice",}`, "INVALID_FIELD", "request", "line 1:22"},
		{"tx", `{"payload":[` + strings.Repeat("[", 20_000),
			"INVALID_FIELD", "payload", "must be an object"},
	} {
		s := n.http("POST", "/api/v1/"+c.path, c.body).wantError(t, 400, codes.InvalidArgument,
			c.reason)
		wantFault(t, s, c.field, c.message)
		if strings.Contains(s.Message(), "proto:") {
			t.Errorf("%s: message %q", c.body, s.Message())
		}
	}
}

// A wrong method returns the allowed methods.
func TestQuery_InvalidValue_FieldAndAllowedValues(t *testing.T) {
	t.Parallel()
	n := newHarness(t).serve()
	for path, fault := range map[string]string{"tx?states=FOO": "states",
		"events?states=FOO": "states[0]"} {
		s := n.http("GET", "/api/v1/"+path, "").wantError(t, 400, codes.InvalidArgument,
			"INVALID_FIELD")
		wantFault(t, s, fault, "must be one of TX_STATE_QUEUED, TX_STATE_ALLOCATED, ")
	}
	for path, fault := range map[string]string{"tx?page_size=x": "page_size",
		"tx?created_from=x": "created_from", "tx?view=x": "view"} {
		s := n.http("GET", "/api/v1/"+path, "").wantError(t, 400, codes.InvalidArgument,
			"INVALID_FIELD")
		wantFault(t, s, fault, "")
	}
	for path, allowed := range map[string]string{"tx": "GET, POST", "events": "GET",
		"tx/00000000-0000-4000-8000-000000000000/cancel": "POST"} {
		a := n.http("DELETE", "/api/v1/"+path, "")
		s := a.wantError(t, 405, codes.Unimplemented, "UNKNOWN_METHOD")
		if message := "DELETE /api/v1/" + path + ": this path takes " +
			strings.ReplaceAll(allowed, ", ", " or "); a.header.Get(
			"Allow") != allowed ||
			s.Message() != message {
			t.Errorf("DELETE %s: Allow is %q, message %q", path, a.header.Get("Allow"),
				s.Message())
		}
	}
}

func TestUnknownField_Typo_NearestSuggested(t *testing.T) {
	t.Parallel()
	n := newHarness(t).serve()
	for body, want := range map[string]string{
		`{"submiter":"alice"}`:         "did you mean \"submitter\"?",
		`{"Submitter":"alice"}`:        "did you mean \"submitter\"?",
		`{"request_ids":"r"}`:          "did you mean \"requestId\"?",
		`{"payload":{"dta":""}}`:       "did you mean \"data\"?",
		`{"payload":{"gasLmiit":"1"}}`: "did you mean \"gasLimit\"?",
		`{"submissions":"alice"}`:      "", `{"x":1}`: "", `{"":1}`: "",
		`{"payload":{"on":""}}`: "", `{"é":1}`: "",
		`{"` + strings.Repeat("submitter", 1000) + `":1}`: "",
	} {
		s := n.http("POST", "/api/v1/tx", body).wantError(t, 400, codes.InvalidArgument,
			"UNKNOWN_FIELD")
		if message := s.Message(); want == "" && strings.Contains(message, "mean") ||
			!strings.Contains(message, want) ||
			!strings.Contains(message, "knows no such field there; remove it") {
			t.Errorf("%s: message %q, want %q", body, message, want)
		}
	}
}
