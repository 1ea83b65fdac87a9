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

// What a path names is not named again. The transcoder would believe a parameter over the path, and
// drop what a body says, without a word: a script that mixes up two transactions would cancel one
// and take it for the other.

// pathName is what a path names: the field of the request, what else would name it, and its value.
type pathName struct {
	field string
	other string
	value string
}

// partsOf are the parts of a path below the prefix of the JSON API, none for another path. It is
// taken apart before it is unescaped: a name may hold slashes, and end like a path.
func partsOf(u *url.URL) []string {
	parts := strings.Split(u.EscapedPath(), "/")
	for i, part := range parts {
		if text, err := url.PathUnescape(part); err == nil { // else it would be no path
			parts[i] = text
		}
	}
	if len(parts) < 4 || !slices.Equal(parts[:3], []string{"", "api", "v1"}) {
		return nil
	}
	return parts[3:]
}

// nameIn is what is named by the path of a URL; the zero value for one that names nothing.
func nameIn(u *url.URL) pathName {
	parts := partsOf(u)
	if len(parts) < 2 {
		return pathName{}
	}
	switch of, value := parts[0], parts[1]; {
	case of == "submitters":
		return pathName{field: "submitter", value: value}
	case of != "tx",
		slices.Equal(parts, []string{"tx", "batch"}),
		slices.Equal(parts, []string{"tx", "by-ids", "events"}):
		return pathName{}
	case value == "by-request":
		return pathName{field: "tx_id", value: value}
	default:
		return pathName{field: "tx_id", other: "request", value: value}
	}
}

// checkParameters refuses parameters that would say what the path says, and those of a request with
// a body, which has all else. That no path takes another method is for the transcoder to say.
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
				"is in the query of a %s, which has none; put it into the body, or send a GET if "+
					"that is what was meant",
				method)
		case method == http.MethodGet && field != "" &&
			(field == named.field || field == named.other):
			return noSuchParameter(name)
		}
	}
	return nil
}

// checkBody refuses a body that names another than the path. What cannot be read is for the
// transcoder to say.
func checkBody(r *http.Request, text []byte, most int) error {
	named := nameIn(r.URL)
	if named.field == "" {
		return nil
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		packed := &inflater{most: int64(most)}
		if packed.Reset(bytes.NewReader(text)) != nil {
			return nil
		}
		text, _ = io.ReadAll(packed)
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
				"is %q in the path and %q in the body; leave it out of the body, or correct "+
					"the path",
				status.Clip(named.value, status.MaxFieldBytes),
				status.Clip(other, status.MaxFieldBytes))
		}
	}
	return nil
}
