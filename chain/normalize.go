package chain

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"github.com/fencepost/fencepost/txn"
)

// responseNormalizer rewrites an HTTP response before rpc.Client reads it. rpc.Client treats every
// field "error" as a failure, but JSON-RPC 1.0 has a null error next to a result. It also drops the
// result next to an error, which may be the hash of accepted bytes. wsConn does the same for a
// WebSocket.
type responseNormalizer struct {
	io.ReadCloser
	spare *sync.Pool // of *bytes.Buffer, reused between responses

	read bool
	body *bytes.Buffer
	rest bytes.Reader
	err  error // the error that ended the body, returned after its content
}

// Read reads the whole response first. The body is bounded, and rpc.Client waits for its end as
// well.
func (m *responseNormalizer) Read(p []byte) (int, error) {
	if !m.read {
		m.read = true
		m.body = m.spare.Get().(*bytes.Buffer)
		_, m.err = m.body.ReadFrom(m.ReadCloser)
		m.rest.Reset(normalized(m.body.Bytes()))
	}
	n, err := m.rest.Read(p)
	if err != nil && m.err != nil {
		err = m.err
	}
	return n, err
}

// maxSpare is the largest buffer that is kept for reuse.
const maxSpare = 8 << 20

// Close returns the buffer for reuse. Readers have their own copy.
func (m *responseNormalizer) Close() error {
	if body := m.body; body != nil {
		m.body = nil
		m.rest.Reset(nil)
		if body.Cap() <= maxSpare {
			body.Reset()
			m.spare.Put(body)
		}
	}
	return m.ReadCloser.Close()
}

// rpcObject is a JSON object by its fields.
type rpcObject map[string]json.RawMessage

// normalized removes null errors from a JSON-RPC response, and moves results next to errors into
// the errors' data. Any other body is returned unchanged.
func normalized(body []byte) []byte {
	if !bytes.Contains(body,
		[]byte(`"error"`)) { // true of almost every response, which then is not parsed twice
		return body
	}
	var (
		one   rpcObject
		many  []rpcObject
		whole any = &one
	)
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '[' {
		whole = &many
	}
	if json.Unmarshal(body, whole) != nil {
		return body
	}
	changed := one.normalize()
	for _, a := range many {
		changed = a.normalize() || changed
	}
	if !changed {
		return body
	}
	if written, err := json.Marshal(whole); err == nil {
		return written
	}
	return body
}

// normalize reports whether it changed the object.
func (a rpcObject) normalize() bool {
	switch {
	case string(a["error"]) == "null":
		delete(a, "error")
		return true
	case a["error"] == nil || a["result"] == nil || string(a["result"]) == "null":
		return false
	}
	var refused rpcObject
	if json.Unmarshal(a["error"], &refused) != nil || refused == nil {
		return false
	}
	kept := rpcObject{resultKey: a["result"]}
	if data := refused["data"]; data != nil {
		kept[dataKey] = data
	}
	var err error
	if refused["data"], err = json.Marshal(kept); err != nil {
		return false
	}
	a["error"], err = json.Marshal(refused)
	return err == nil
}

// A result next to an error travels in the error's data, together with the original data: it is the
// only field that rpc.Client passes on unchanged.
const (
	resultKey = "fencepost.result"
	dataKey   = "fencepost.data"
)

// splitResult reverses that: it returns the original data of the error and the result next to it,
// if any.
func splitResult(data any) (own any, result json.RawMessage) {
	kept, ok := data.(map[string]any)
	if !ok || kept[resultKey] == nil {
		return data, nil
	}
	result, err := json.Marshal(kept[resultKey])
	if err != nil {
		return data, nil
	}
	return kept[dataKey], result
}

// isHash reports whether a result is this hash.
func isHash(result json.RawMessage, hash txn.Hash) bool {
	var answered *txn.Hash
	return json.Unmarshal(result, &answered) == nil && answered != nil && *answered == hash
}
