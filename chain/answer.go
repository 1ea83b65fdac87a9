package chain

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/fencepost/fencepost/txn"
)

// mender reads an answer over HTTP before rpc.Client does, which takes every field "error" for a refusal: one that is null, as JSON-RPC 1.0 has it beside a
// result, says that there is none. And it forgets the result beside an error, which may be the hash of bytes that were taken.
//
// Nothing reads what comes over a WebSocket before it: a null error is an answer that nobody understands there.
type mender struct {
	io.ReadCloser
	notes *notes // nil: nobody asks for the result

	read bool
	rest bytes.Reader
	err  error // what ended the body, behind all that could be read of it
}

// Read takes in the whole answer first. The body below is bounded, and rpc.Client waits for its end, too.
func (m *mender) Read(p []byte) (int, error) {
	if !m.read {
		var body []byte
		m.read = true
		body, m.err = io.ReadAll(m.ReadCloser)
		m.rest.Reset(m.mended(body))
	}
	n, err := m.rest.Read(p)
	if err != nil && m.err != nil {
		err = m.err
	}
	return n, err
}

// member is one answer by its fields.
type member map[string]json.RawMessage

// mended is the answer without errors that are null, and as it is if there are none, or if it is no JSON-RPC answer.
func (m *mender) mended(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"error"`)) { // as in nearly all answers: they are not read twice
		return body
	}
	var (
		one   member
		many  []member
		whole any = &one
	)
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '[' {
		whole = &many
	}
	if json.Unmarshal(body, whole) != nil {
		return body
	}
	changed := one.dropNull()
	for _, a := range many {
		changed = a.dropNull() || changed
	}
	if m.notes != nil && one["error"] != nil {
		m.notes.result = one["result"]
	}
	if !changed {
		return body
	}
	if written, err := json.Marshal(whole); err == nil {
		return written
	}
	return body
}

// dropNull removes an error that is none, and tells whether there was one.
func (a member) dropNull() bool {
	if string(a["error"]) != "null" {
		return false
	}
	delete(a, "error")
	return true
}

// names tells whether a result is this hash.
func names(result json.RawMessage, hash txn.Hash) bool {
	var answered *txn.Hash
	return json.Unmarshal(result, &answered) == nil && answered != nil && *answered == hash
}
