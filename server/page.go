package server

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/fencepost/fencepost/server/status"
)

// A page token names the last row of the page before it, and the question that it belongs to: under
// another filter the same token would skip rows silently.

const (
	pageTokenVersion = 1
	questionBytes    = 8
)

const defaultPage = 100

// pageSize is how many rows a page has.
func pageSize(asked int32) int {
	if asked == 0 {
		return defaultPage
	}
	return int(asked)
}

// question identifies what is asked, whatever page of it.
func question(of proto.Message) []byte {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(of)
	if err != nil {
		return make([]byte, questionBytes) // a request that came over the wire can be marshalled
	}
	sum := sha256.Sum256(encoded)
	return sum[:questionBytes]
}

func pageToken(question, last []byte) string {
	return base64.RawURLEncoding.EncodeToString(
		slices.Concat([]byte{pageTokenVersion}, question, last))
}

// parsePageToken returns the last row of the page before; nil for the first page.
func parsePageToken(token string, question []byte) ([]byte, error) {
	if token == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= 1+questionBytes || raw[0] != pageTokenVersion {
		return nil, errPageToken()
	}
	if !slices.Equal(raw[1:1+questionBytes], question) {
		return nil, status.InvalidField("page_token",
			"belongs to a different filter; "+
				"keep the filter across pages, or omit the token to start over")
	}
	return raw[1+questionBytes:], nil
}

// errPageToken rejects a page token that the called method did not return.
func errPageToken() error {
	return status.InvalidField("page_token", "is not a token of this list; "+
		"use the next_page_token of the previous page, or omit it for the first page")
}
