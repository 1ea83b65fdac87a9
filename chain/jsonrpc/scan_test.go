package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

const testLimit = 1 << 20

func parseAll(t interface{ Fatal(...any) }, body string) (found []message, alone bool) {
	alone, err := parse(strings.NewReader(body), testLimit, testLimit,
		map[string]bool{"logs": true, "count": false}, 10,
		func(m message) { found = append(found, m) })
	if err != nil {
		t.Fatal(err)
	}
	return found, alone
}

func TestParse_Fields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, id, result string
		err              *Error
	}{
		"result":      {`{"jsonrpc":"2.0","id":7,"result":"0x1"}`, "7", `"0x1"`, nil},
		"text id":     {`{"id":"7","result":1}`, "7", `1`, nil},
		"null id":     {`{"id":null,"result":1}`, "", `1`, nil},
		"null result": {`{"id":7,"result":null}`, "7", `null`, nil},
		"null error":  {` { "error" : null , "id":7 , "result":true } `, "7", `true`, nil},
		"skipped": {
			`{"id":7,"result":{"a":1,"logs":[{"b":"]"}],"c":{"logs":1,"d":2}}}`, "7",
			`{"a":1,"c":{"d":2}}`, nil,
		},
		"skipped first": {`{"id":7,"result":{"logs":{},"a":[]}}`, "7", `{"a":[]}`, nil},
		"counted": {
			`{"id":7,"result":[{"count":[{"b":[1,2]},"]"],"d":2},{"count":[ ]},{"count":{"e":1}}]}`,
			"7", `[{"count":2,"d":2},{"count":0},{"count":null}]`, nil,
		},
		"escapes": {
			`{"id":7,"result":"a\"b\\","x":"\\\\\""}`, "7", `"a\"b\\"`, nil,
		},
		"error": {
			`{"id":7,"error":{"code":3,"message":"m","data":{"logs":"c"}}}`, "7", ``,
			&Error{Code: 3, Message: "m", Data: json.RawMessage(`{"logs":"c"}`)},
		},
		"result next to error": {
			`{"result":{"a":1},"error":{"code":3,"message":"m","data":"0x08"}}`, "", `{"a":1}`,
			&Error{3, "m", json.RawMessage(`"0x08"`), json.RawMessage(`{"a":1}`)},
		},
		"null next to error": {
			`{"result":null,"error":{"code":3,"message":"m","data":null}}`, "", `null`,
			&Error{Code: 3, Message: "m"},
		},
		"error as text": {`{"id":7,"error":"no"}`, "7", ``, &Error{Message: "no"}},
		"code as text": {
			`{"id":7,"error":{"code":"x","message":5}}`, "7", ``, &Error{Message: "5"},
		},
	} {
		found, alone := parseAll(t, c.body)
		if len(found) != 1 || !alone || found[0].id != c.id ||
			string(found[0].result) != c.result ||
			!reflect.DeepEqual(found[0].err, c.err) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	found, alone := parseAll(t, `[{"id":1,"result":1} , {"id":2,"error":{}}]`)
	if len(found) != 2 || alone || found[1].id != "2" || found[1].err == nil {
		t.Errorf("batch: %+v", found)
	}
	for _, id := range []string{"0x5", "0x" + strings.Repeat("5", 64)} {
		found, _ = parseAll(t, `{"method":"eth_subscription","params":{"chain":1,"subscription":"`+
			id+`","result":{"number":1}}}`)
		if found[0].subscription != id {
			t.Errorf("notification: %+v", found)
		}
	}
}

// Data above its limit is dropped and leaves the rest of the error.
func TestParse_LargeErrorData_Dropped(t *testing.T) {
	t.Parallel()
	found, _ := parseAll(t, `{"id":7,"error":{"data":"`+strings.Repeat("0", maxErrorData)+
		`","code":3,"message":"execution reverted"}}`)
	want := &Error{Code: 3, Message: "execution reverted"}
	if !reflect.DeepEqual(found[0].err, want) {
		t.Errorf("%+v, want %+v", found[0].err, want)
	}
}

// A result above its limit fails its own call only.
func TestParse_LargeResult_OthersKept(t *testing.T) {
	t.Parallel()
	var found []message
	_, err := parse(strings.NewReader(`[{"id":1,"result":"0123456789"},{"id":2,"result":5}]`),
		testLimit, 10, nil, 10, func(m message) { found = append(found, m) })
	var tooLarge *TooLargeError
	if err != nil || len(found) != 2 || !errors.As(found[0].lost, &tooLarge) ||
		tooLarge.Limit != 10 || string(found[1].result) != "5" {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestParse_Malformed_Fails(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `x`, `"text"`, `{`, `{"id"}`, `{"id":}`, `{"id":1,}`, `{"id":1 "result":2}`, `{id:1}`,
		`[{"id":1}`, `[1]`, `{"result":"0x`, `{"result":[1}`, `{"result":{"a":1]}`, `<html>`,
		`{"result":` + strings.Repeat("[", maxDepth+1),
		`{"result":` + strings.Repeat("1", 2*maxKey) + `}`,
		`[` + strings.Repeat(`{},`, 11) + `{}]`,
	} {
		_, err := parse(strings.NewReader(body), testLimit, testLimit, nil, 10, func(message) {})
		if !errors.Is(err, ErrMalformed) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%.40s: %v", body, err)
		}
	}
	broken := errors.New("broken")
	_, err := parse(iotest.ErrReader(broken), testLimit, testLimit, nil, 10, func(message) {})
	if !errors.Is(err, broken) {
		t.Errorf("error %v of the stream is lost", err)
	}
}

// The kept result is the value without the skipped fields, for any value and any chunks of it.
func TestParse_AnyValue_Kept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := anyJSON(4).Draw(t, "value")
		body, err := json.Marshal(map[string]any{"id": 1, "result": value})
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "indent") {
			var spaced bytes.Buffer
			if err := json.Indent(&spaced, body, "\r", "\t"); err != nil {
				t.Fatal(err)
			}
			body = spaced.Bytes()
		}
		var from io.Reader = bytes.NewReader(body)
		if rapid.Bool().Draw(t, "bytewise") {
			from = iotest.OneByteReader(from)
		}
		var found message
		if _, err := parse(from, testLimit, testLimit, map[string]bool{"logs": true}, 1,
			func(m message) { found = m }); err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(found.result, &got); err != nil {
			t.Fatalf("%s: %v", found.result, err)
		}
		if want := withoutLogs(value); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %v, want %v", body, got, want)
		}
	})
}

func anyJSON(depth int) *rapid.Generator[any] {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[\\"a]{0,8}`))
	leaf := rapid.OneOf(text.AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.Bool().AsAny(),
		rapid.Just[any](nil))
	if depth == 0 {
		return leaf
	}
	inner := anyJSON(depth - 1)
	key := rapid.OneOf(rapid.Just("logs"), text)
	return rapid.OneOf(leaf, rapid.SliceOfN(inner, 0, 4).AsAny(),
		rapid.MapOfN(key, inner, 0, 4).AsAny())
}

// withoutLogs is the value as encoding/json decodes it, without the fields "logs".
func withoutLogs(value any) any {
	switch v := value.(type) {
	case map[string]any:
		rest := map[string]any{}
		for key, inner := range v {
			if key != "logs" {
				rest[key] = withoutLogs(inner)
			}
		}
		return rest
	case []any:
		rest := make([]any, len(v))
		for i, inner := range v {
			rest[i] = withoutLogs(inner)
		}
		return rest
	}
	return value
}
