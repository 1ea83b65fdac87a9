package outcome

import "testing"

func TestRefusesBatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		response Response
		want     bool
	}{
		{Response{Code: -32600, Message: "batch too large"}, true}, // go-ethereum
		{Response{Message: "batch limit 100 exceeded (can increase by --rpc.batch.limit). " +
			"Requested batch of size: 300"}, true}, // Erigon
		{Response{Code: -32005, Message: "Batch size limit exceeded"}, true}, // Nethermind
		{Response{Code: -32005, Message: "Batched requests are not supported by this server"},
			true},
		{Response{Code: -32007, Message: "The batch request was too large",
			Data: "Exceeded max limit of 50"}, true}, // jsonrpsee
		{Response{Code: -32602, Message: "Exceeds max batch size"}, true},
		{Response{Message: "Batch of 101 requests exceeds the limit of 100"}, true},
		{Response{HTTPStatus: 413, Message: "<html>Request Entity Too Large</html>"}, true},
		{Response{HTTPStatus: 400}, true},
		{Response{Code: -32600, Message: "Invalid Request"}, true},
		{Response{Code: -32005, Message: "batch rate limit exceeded, 10 per second"}, false},
		{Response{HTTPStatus: 429, Message: "too many requests"}, false},
		{Response{HTTPStatus: 401, Code: -32600, Message: "invalid project id"}, false}, // Infura
		{Response{HTTPStatus: 502}, false},
		{Response{Code: -32000, Message: "nonce too low"}, false},
		{Response{Code: -32000, Message: "exceeds block gas limit"}, false},
	} {
		if got := RefusesBatch(c.response); got != c.want {
			t.Errorf("%+v: %v", c.response, got)
		}
	}
}
