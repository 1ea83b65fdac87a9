package chain

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"github.com/fencepost/fencepost/txn"
)

// responseNormalizer reads an answer over HTTP before rpc.Client does, which takes every field "error" for a refusal: one that is null, as JSON-RPC 1.0 has it beside a
// result, says that there is none. And it forgets the result beside an error, which may be the hash of bytes that were taken. Over a WebSocket wsConn does the same.
type responseNormalizer struct {
	io.ReadCloser
	spare *sync.Pool // of *bytes.Buffer: an answer is as large as the one before, and many come in a second

	read bool
	body *bytes.Buffer
	rest bytes.Reader
	err  error // what ended the body, behind all that could be read of it
}

// Read takes in the whole answer first. The body below is bounded, and rpc.Client waits for its end, too.
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

// maxSpare is how large a buffer may be to be kept for the next answer.
const maxSpare = 8 << 20

// Close gives the memory of the answer on. Whoever has read it has a copy.
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

// rpcObject is one answer by its fields.
type rpcObject map[string]json.RawMessage

// normalized is the answer without errors that are null, with results beside errors put where they are not lost, and as it is if it has neither, or is no JSON-RPC
// answer.
func normalized(body []byte) []byte {
	if !bytes.Contains(body,
		[]byte(`"error"`)) { // as in nearly all answers: they are not read twice
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

// normalize tells whether there was anything to mend.
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

// The result that stood beside an error travels in the error's data, the one field that rpc.Client hands on whole, and the data of its own within that.
const (
	resultKey = "fencepost: the result beside this error"
	dataKey   = "fencepost: the data of this error"
)

// splitResult undoes that: the data that the node gave along with its error, and the result that stood beside it; nil: there was none.
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

// isHash tells whether a result is this hash.
func isHash(result json.RawMessage, hash txn.Hash) bool {
	var answered *txn.Hash
	return json.Unmarshal(result, &answered) == nil && answered != nil && *answered == hash
}
