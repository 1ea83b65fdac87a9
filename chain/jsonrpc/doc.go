// Package jsonrpc is a JSON-RPC 2.0 client over HTTP and WebSocket that reads responses in bounded
// memory.
//
// A response is scanned as it arrives. Only the parts that can be decoded are kept, up to the limit
// of the method; fields that no result needs are skipped without being stored. A response above
// its limit fails with a [TooLargeError]. The data of an error is never decoded: it stays JSON.
//
// A [Client] never reconnects a WebSocket and never retries. The caller decides about both.
package jsonrpc
