package server

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/fencepost/fencepost/server/status"
)

// A page token names the last row of the previous page and contains a digest of the filter: with
// another filter, the same token would silently skip rows.

const (
	pageTokenVersion  = 1
	filterDigestBytes = 8
)

const defaultPage = 100

// pageSize returns the number of rows of a page.
func pageSize(requested int32) int {
	if requested == 0 {
		return defaultPage
	}
	return int(requested)
}

// filterDigest identifies a filter, which is a request without its page.
func filterDigest(of proto.Message) []byte {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(of)
	if err != nil {
		// impossible: the request was unmarshalled
		return make([]byte, filterDigestBytes)
	}
	sum := sha256.Sum256(encoded)
	return sum[:filterDigestBytes]
}

func pageToken(filter, last []byte) string {
	return base64.RawURLEncoding.EncodeToString(
		slices.Concat([]byte{pageTokenVersion}, filter, last))
}

// parsePageToken returns the last row of the previous page; nil for the first page.
func parsePageToken(token string, filter []byte) ([]byte, error) {
	if token == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= 1+filterDigestBytes || raw[0] != pageTokenVersion {
		return nil, errPageToken()
	}
	if !slices.Equal(raw[1:1+filterDigestBytes], filter) {
		return nil, errOtherFilter()
	}
	return raw[1+filterDigestBytes:], nil
}

func errOtherFilter() error {
	return status.InvalidField("page_token",
		"belongs to a different filter; "+
			"keep the filter across pages, or omit the token to start over")
}

// errPageToken rejects a page token that the called method did not return.
func errPageToken() error {
	return status.InvalidField("page_token", "is not a token of this list; "+
		"use the next_page_token of the previous page, or omit it for the first page")
}
