package outcome

import (
	"encoding/json"
	"strings"
)

// ReadResponse finds the error in a JSON-RPC response body. Of a batch it returns the first error,
// because a batch rejected as a whole repeats the same one.
func ReadResponse(body []byte) (Response, bool) {
	var envelope struct {
		Error struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	trimmed := strings.TrimSpace(string(body))
	if strings.HasPrefix(trimmed, "[") { // a rejected batch may be answered as a batch
		var batch []json.RawMessage
		if json.Unmarshal(body, &batch) != nil || len(batch) == 0 {
			return Response{}, false
		}
		body = batch[0]
	}
	if json.Unmarshal(body, &envelope) != nil || envelope.Error.Message == "" {
		return Response{}, false
	}
	return Response{
		Code:    envelope.Error.Code,
		Message: envelope.Error.Message,
		Data:    ReadData(envelope.Error.Data),
	}, true
}

// maxDataJSON is the largest data other than a text that is read, in bytes: decoded values take
// many times the memory of their JSON. No known node puts more than a few lines there.
const maxDataJSON = 16 << 10

// ReadData decodes the data of an error for Response.Data. Data that is too large or not JSON is
// left out.
func ReadData(raw json.RawMessage) any {
	var data any
	if len(raw) > maxDataJSON && raw[0] != '"' || json.Unmarshal(raw, &data) != nil {
		return nil
	}
	return data
}
