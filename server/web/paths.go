package web

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/server/status"
)

// A request must not contradict its path. The transcoder would silently prefer a parameter to the
// path, and ignore the body: a script that confuses two transactions would cancel the wrong one.

// pathName is the resource that a path names: the field of the request, its alternatives, and the
// value.
type pathName struct {
	field  string
	others []string
	value  string
}

// partsOf returns the segments of a path below the prefix of the JSON API; nil for another path. It
// splits before it unescapes: a name may contain slashes.
func partsOf(u *url.URL) []string {
	parts := strings.Split(u.EscapedPath(), "/")
	for i, part := range parts {
		if text, err := url.PathUnescape(part); err == nil { // always: net/url has parsed the path
			parts[i] = text
		}
	}
	if len(parts) < 4 || !slices.Equal(parts[:3], []string{"", "api", "v1"}) {
		return nil
	}
	return parts[3:]
}

// nameIn returns the resource that the path of a URL names; the zero value if it names none.
func nameIn(u *url.URL) pathName {
	parts := partsOf(u)
	if len(parts) < 2 {
		return pathName{}
	}
	switch of, value := parts[0], parts[1]; {
	case of == "submitters":
		return pathName{field: "submitter", value: value}
	case of == "pools":
		return pathName{field: "pool", value: value}
	case of != "tx",
		slices.Equal(parts, []string{"tx", "batch"}),
		slices.Equal(parts, []string{"tx", "simulate"}),
		slices.Equal(parts, []string{"tx", "by-ids", "events"}):
		return pathName{}
	case value == "by-request":
		return pathName{field: "tx_id", others: []string{"hash"}, value: value}
	case value == "by-hash" && len(parts) == 3:
		return pathName{field: "hash", others: []string{"tx_id", "request"}, value: parts[2]}
	default:
		return pathName{field: "tx_id", others: []string{"request", "hash"}, value: value}
	}
}

// checkParameters rejects parameters that name the resource of the path again, and all parameters
// of a request with a body. The transcoder rejects wrong methods.
func checkParameters(method string, u *url.URL) error {
	if err := checkURL(u); err != nil {
		return err
	}
	named := nameIn(u)
	for _, name := range slices.Sorted(maps.Keys(u.Query())) {
		field, _, _ := strings.Cut(snakeCase(name), ".")
		switch {
		case method == http.MethodPost, method == http.MethodPatch:
			return status.InvalidField(name,
				"is in the query of a %s request; move it to the body, or send a GET request",
				method)
		case method == http.MethodGet && field != "" &&
			(field == named.field || slices.Contains(named.others, field)):
			return noSuchParameter(name)
		}
	}
	return nil
}

// checkBody rejects a body that names another resource than the path. The transcoder rejects
// malformed bodies.
func checkBody(r *http.Request, text []byte, most int) error {
	named := nameIn(r.URL)
	if named.field == "" {
		return nil
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		compressed := &inflater{most: int64(most)}
		if compressed.Reset(bytes.NewReader(text)) != nil {
			return nil
		}
		text, _ = io.ReadAll(compressed)
	}
	var body struct {
		TxID      string `json:"txId"`
		TxIDSnake string `json:"tx_id"`
		Submitter string `json:"submitter"`
	}
	if json.Unmarshal(text, &body) != nil {
		return nil
	}
	for _, other := range map[string][]string{"tx_id": {body.TxID, body.TxIDSnake},
		"submitter": {body.Submitter}}[named.field] {
		if other != "" && other != named.value {
			return status.InvalidField(named.field,
				"is %q in the path and %q in the body; omit it from the body, or correct the path",
				status.Clip(named.value, status.MaxFieldBytes),
				status.Clip(other, status.MaxFieldBytes))
		}
	}
	return nil
}
