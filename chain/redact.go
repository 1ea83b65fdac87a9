package chain

import (
	"net/url"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/chain/outcome"
)

// redactor hides the parts of an endpoint's address in its responses: some servers quote the
// requested path.
type redactor []string

const (
	minPassword = 3 // shorter ones occur in any text
	minSegment  = 6 // of path or query; shorter ones are "v3", "rpc", "eth"
)

func redactorFor(address string) redactor {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	var r redactor
	add := func(part string, least int) {
		if len(part) >= least {
			r = append(r, part, url.PathEscape(part), url.QueryEscape(part))
		}
	}
	add(u.Host, 1)
	add(u.Hostname(), 1)
	if u.User != nil {
		add(u.User.Username(), minPassword)
		password, _ := u.User.Password()
		add(password, minPassword)
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		add(segment, minSegment)
	}
	for _, values := range u.Query() {
		for _, value := range values {
			add(value, minSegment)
		}
	}
	slices.SortFunc(r,
		func(a, b string) int { return len(b) - len(a) }) // "host:port" before "host"
	return slices.Compact(r)
}

func (r redactor) hide(text string) string {
	for _, part := range r {
		text = strings.ReplaceAll(text, part, outcome.Redacted)
	}
	return text
}

// hideIn hides the secrets in all texts of a decoded JSON value, in place.
func (r redactor) hideIn(value any) any {
	switch v := value.(type) {
	case string:
		return r.hide(v)
	case []any:
		for i := range v {
			v[i] = r.hideIn(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = r.hideIn(v[key])
		}
	}
	return value
}
