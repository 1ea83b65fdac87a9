package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
)

var (
	// ErrClosed means that the connection ended. The request may have been processed.
	ErrClosed = errors.New("connection lost")
	// ErrMalformed means that a response is not JSON-RPC.
	ErrMalformed = errors.New("response is not valid JSON-RPC")
	// ErrNoResult means that a call has neither a result nor an error.
	ErrNoResult = errors.New("response without a result")
)

// Error is the error response of a server to one call.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage // nil: none, or above maxErrorData
	Result  json.RawMessage // that some servers send next to the error; nil: none
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("JSON-RPC error %d", e.Code)
	}
	return e.Message
}

// TooLargeError is a response above its limit.
type TooLargeError struct{ Limit int64 } // bytes

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("response larger than %d bytes", e.Limit)
}

// NoIDError is an error response over a WebSocket that does not name its call, while several
// calls may be meant. Every call that waits fails with it, since one of them gets no response.
type NoIDError struct{ Err *Error }

func (e *NoIDError) Error() string { return "error response without the id of its call" }

// HTTPError is a response with an HTTP status other than 2xx.
type HTTPError struct {
	Code   int
	Status string // "502 Bad Gateway"
	Body   []byte // its beginning
	Err    *Error // the first JSON-RPC error in the body; nil if there is none
}

func (e *HTTPError) Error() string { return "HTTP " + e.Status }

// HandshakeError is a WebSocket handshake that was rejected with an HTTP status.
type HandshakeError struct {
	Err  error
	Code int
}

func (e *HandshakeError) Error() string { return fmt.Sprintf("%v (HTTP status %d)", e.Err, e.Code) }
func (e *HandshakeError) Unwrap() error { return e.Err }
