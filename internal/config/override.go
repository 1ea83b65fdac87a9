package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Prefix is the prefix of all environment variables that are read.
const Prefix = "FENCEPOST_"

// overrides are the values set outside the file.
type overrides struct {
	environment map[string]string // by name of the variable
	flags       map[string]string // by key
	taken       map[string]string // key of each variable and flag that was used
}

// variable returns the environment variable of a key: FENCEPOST_LEASE_DURATION for lease.duration.
func variable(path string) string {
	return Prefix + strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			return c
		default:
			return '_'
		}
	}, path)
}

// platform matches variables that Kubernetes sets in every pod for a service whose name begins with
// "fencepost".
var platform = regexp.MustCompile(
	`^FENCEPOST_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT|` +
		`PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// collect returns the variables that are meant for this program. An empty variable counts as unset,
// because deployment tools write "not set" that way.
func collect(environ, ignored []string) map[string]string {
	found := map[string]string{}
	for _, line := range environ {
		name, text, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, Prefix) && text != "" && !slices.Contains(ignored, name) &&
			!platform.MatchString(name) {
			found[name] = text
		}
	}
	return found
}

func (r *reader) setFlags(set []string) {
	for _, text := range set {
		key, value, ok := strings.Cut(text, "=")
		if key = strings.TrimSpace(key); !ok || key == "" || value == "" {
			r.problem(Origin{Layer: InFlags}, key, "no value",
				"use --set key=value, for example --set lease.duration=20s")
			continue
		}
		r.overrides.flags[key] = value
	}
}

// override returns the value of a key from the flags or the environment.
func (r *reader) override(e entry, path string) (string, Origin, bool) {
	r.known = append(r.known, path)
	text, ok := r.overrides.flags[path]
	if ok {
		r.overrides.taken[path] = path
	}
	if ok && e.secret {
		r.problem(Origin{Layer: InFlags}, path,
			"secrets on the command line are visible to all users of the machine",
			"set "+variable(path)+" instead")
		return "", Origin{}, false
	}
	name := variable(path)
	fromEnvironment, set := r.overrides.environment[name]
	if set {
		if other, twice := r.overrides.taken[name]; twice {
			r.problem(Origin{InEnvironment, name, 0}, path,
				"the variable also sets "+other+" as well",
				"rename one of them, or set the value in the file")
		}
		r.overrides.taken[name] = path
	}
	switch {
	case ok:
		return text, Origin{Layer: InFlags}, true
	case set:
		return fromEnvironment, Origin{InEnvironment, name, 0}, true
	default:
		return "", Origin{}, false
	}
}

// leftovers reports flags and variables that match no key.
func (r *reader) leftovers() {
	variables := make([]string, len(r.known))
	for i, path := range r.known {
		variables[i] = variable(path)
	}
	report := func(origin Origin, key, written string, candidates []string) {
		remedy := "run \"fencepost config show\" for the keys; list elements are addressed by name"
		if meant := nearest(written, candidates); meant != "" {
			remedy = fmt.Sprintf("did you mean %s?", meant)
		}
		r.problem(origin, key, "unknown key", remedy)
	}
	for _, key := range sortedKeys(r.overrides.flags) {
		if _, ok := r.overrides.taken[key]; !ok {
			report(Origin{Layer: InFlags}, key, key, r.known)
		}
	}
	for _, name := range sortedKeys(r.overrides.environment) {
		if _, ok := r.overrides.taken[name]; !ok {
			report(Origin{InEnvironment, name, 0}, "", name, variables)
		}
	}
}
