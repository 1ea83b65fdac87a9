package chain

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/txn"
	"github.com/gorilla/websocket"
)

// hugeResponse is how much the test's endpoint sends per call, in bytes.
const hugeResponse = 60 << 20

// memoryBound is the most memory that a process may map for three of them, in bytes. A process
// without any call maps about 14 MB.
const memoryBound = 48 << 20

// hugeServer responds to every call other than the verification with 60 MB. fill is repeated
// between the parts of a response. A response that starts with a bracket is a batch, and ID in its
// fill is the id of the call.
func hugeServer(t *testing.T, before, fill, after string) *httptest.Server {
	t.Helper()
	answer := func(asked []byte, w io.Writer) {
		var calls []struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(asked, &calls) == nil && calls[0].Method == "eth_chainId" {
			_, _ = io.WriteString(w, `[{"id":`+string(calls[0].ID)+`,"result":"0x7a69"},`+
				`{"id":`+string(calls[1].ID)+`,"result":{"number":"0x0","hash":"0x`+
				strings.Repeat("9e", 32)+`"}},{"id":`+string(calls[2].ID)+`,"result":"0x5"}]`)
			return
		}
		var call struct{ ID json.RawMessage }
		_ = json.Unmarshal(asked, &call) // a batch: the last id will do
		if calls != nil {
			call.ID = calls[0].ID
			_, _ = io.WriteString(w, "[")
			defer func() { _, _ = io.WriteString(w, "]") }()
		}
		before, fill := before, fill
		after := after
		if strings.HasPrefix(before, "[") {
			fill = strings.ReplaceAll(fill, "ID", string(call.ID))
		} else {
			before, after = `{"jsonrpc":"2.0","id":`+string(call.ID)+`,`+before, after+`}`
		}
		_, _ = io.WriteString(w, before)
		part := bytes.Repeat([]byte(fill), 1<<16/len(fill))
		for n := 0; n < hugeResponse; n += len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, after)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsWebSocketUpgrade(r) {
			asked, _ := io.ReadAll(r.Body)
			answer(asked, w)
			return
		}
		conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			_, asked, err := conn.ReadMessage()
			if err != nil {
				return
			}
			message, err := conn.NextWriter(websocket.TextMessage)
			if err != nil {
				return
			}
			answer(asked, message)
			_ = message.Close()
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// A response of 60 MB takes little memory, with any of its parts large, and fails as the endpoint's
// fault. Each case runs in a process of its own.
func TestResponse_Huge_MemoryBounded(t *testing.T) {
	if address := os.Getenv("HUGE_RESPONSE"); address != "" {
		callHuge(t, address)
		return
	}
	t.Parallel()
	for name, c := range map[string]struct{ before, fill, after string }{
		"result":          {`"result":"`, "0", `"`},
		"list":            {`"result":[`, "{},", `{}]`},
		"object":          {`"result":{"transactions":[`, "null,", `null]}`},
		"data of error":   {`"error":{"code":3,"message":"failed","data":[`, "[],", `[]]}`},
		"text in error":   {`"error":{"code":3,"message":"`, "a", `"}`},
		"fields of error": {`"error":{"code":3,"data":{"a":`, `{"a":0},"a":`, `0}}`},
		"unknown field":   {`"debug":[`, "[],", `[]],"result":"0x1"`},
		"white space":     {``, " ", `"result":"0x1"`},
		"repeated id":     {`[`, `{"id":ID},`, `{}]`},
	} {
		for _, transport := range []string{"http", "ws"} {
			t.Run(name+"/"+transport, func(t *testing.T) {
				s := hugeServer(t, c.before, c.fill, c.after)
				address := transport + strings.TrimPrefix(s.URL, "http")
				child := exec.CommandContext(t.Context(), os.Args[0],
					"-test.run=^TestResponse_Huge_MemoryBounded$", "-test.v")
				child.Env = append(os.Environ(), "HUGE_RESPONSE="+address)
				if out, err := child.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// callHuge makes calls of each size and checks their classes and the memory of the process.
func callHuge(t *testing.T, address string) {
	c, err := Dial(t.Context(), Options{
		Name: "dev", ChainID: testChain, Endpoints: []string{address}, Timeout: 30 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := c.Send(t.Context(), signed); o.Class != txn.Ambiguous {
		t.Errorf("send: %+v, want AMBIGUOUS", o)
	}
	c = c.forgetHealth()
	_, err = c.Head(t.Context())
	t.Log("head:", err)
	c = c.forgetHealth()
	r := c.Receipts(t.Context(), []txn.Hash{{1}})
	t.Log("receipt:", r[0].Err)
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	used := sample[0].Value.Uint64()
	t.Logf("%d MB", used>>20)
	if used > memoryBound {
		t.Errorf("%d MB mapped, want at most %d", used>>20, memoryBound>>20)
	}
}

// forgetHealth lets the next call use the endpoint at once.
func (c *Client) forgetHealth() *Client {
	for _, e := range c.endpoints {
		e.mu.Lock()
		e.retryAt = time.Time{}
		e.mu.Unlock()
	}
	return c
}
