package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Prefix begins the names of all environment variables that are read.
const Prefix = "FENCEPOST_"

// overrides are the values that were written elsewhere than in the file.
type overrides struct {
	environment map[string]string // by name of the variable
	flags       map[string]string // by key
	taken       map[string]string // the key that each variable and flag was taken for
}

// variable is the environment variable of a key: FENCEPOST_LEASE_DURATION for lease.duration.
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

// platform matches variables that Kubernetes sets in every pod for a service whose name begins with "fencepost".
var platform = regexp.MustCompile(
	`^FENCEPOST_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// collect sorts out which variables are meant for this program. An empty one is as good as none: that is how deployment tools write "not set".
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
			r.problem(Origin{Layer: InFlags}, key, "it has no value",
				"write --set key=value, for example --set lease.duration=20s")
			continue
		}
		r.overrides.flags[key] = value
	}
}

// override is what the flags or the environment say about a key.
func (r *reader) override(e entry, path string) (string, Origin, bool) {
	r.known = append(r.known, path)
	text, ok := r.overrides.flags[path]
	if ok {
		r.overrides.taken[path] = path
	}
	if ok && e.secret {
		r.problem(Origin{Layer: InFlags}, path,
			"it is a secret, and every user of the machine can read a command line",
			"set "+variable(path)+" instead")
		return "", Origin{}, false
	}
	name := variable(path)
	fromEnvironment, set := r.overrides.environment[name]
	if set {
		if other, twice := r.overrides.taken[name]; twice {
			r.problem(Origin{InEnvironment, name, 0}, path, "the variable means "+other+" as well",
				"rename one of them, or write the value into the file")
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

// leftovers reports flags and variables that no key was found for.
func (r *reader) leftovers() {
	variables := make([]string, len(r.known))
	for i, path := range r.known {
		variables[i] = variable(path)
	}
	report := func(origin Origin, key, written string, candidates []string) {
		remedy := "see \"fencepost config show\" for the keys; elements of lists go by their names"
		if meant := nearest(written, candidates); meant != "" {
			remedy = fmt.Sprintf("did you mean %s?", meant)
		}
		r.problem(origin, key, "there is no such key", remedy)
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
