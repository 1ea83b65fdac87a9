package config

import (
	"fmt"
	"strings"
)

// Ledger is one of several ledgers that a node serves.
type Ledger struct {
	Name    string
	URL     Secret // from URLFile if that is set
	URLFile string
	Schema  string
}

// maxLedgers bounds the ledgers of a node; each has connections and readers of its own.
const maxLedgers = 16

func ledgersSection() field[Config] {
	return list("ledgers",
		"Several ledgers that the node serves as one, instead of the one in database.url, "+
			"which must not be set then, nor its variable FENCEPOST_DATABASE_URL: see "+
			"docs/ledgers.md. New accounts and pools go to the first, unless the request names "+
			"another. All other keys of database apply to each. Configure all nodes alike.",
		func(c *Config) *[]Ledger { return &c.Ledgers },
		value("name", label(), "",
			"The name of the ledger, as in \"fencepost ledger join\".",
			func(l *Ledger) *string { return &l.Name }).must().inFile(),
		value("url", postgres(), "",
			"The URL of its database. Required unless url_file is set.",
			func(l *Ledger) *Secret { return &l.URL }),
		file("url_file",
			"A file that holds the URL instead, for secrets mounted into containers.",
			func(l *Ledger) *string { return &l.URLFile }),
		value("schema", schemaName(), "public", "The schema that holds the tables.",
			func(l *Ledger) *string { return &l.Schema }),
	)
}

// findURLs chooses the URL of each database.
func (r *reader) findURLs(c *Config) {
	r.findURL("directory", "directory's", false, &c.Directory.URL, c.Directory.URLFile)
	if len(c.Ledgers) == 0 {
		r.findURL("database", "database", true, &c.Database.URL, c.Database.URLFile)
	}
	for i := range c.Ledgers {
		l := &c.Ledgers[i]
		r.findURL(c.Path("ledgers", i), "database", true, &l.URL, l.URLFile)
	}
}

// relateLedgers checks the keys that several ledgers replace or need.
func relateLedgers(r *reader, c *Config) {
	if len(c.Ledgers) == 0 {
		for i, s := range c.Submitters {
			if key := c.Path("submitters", i) + ".ledger"; s.Ledger != "" {
				r.problem(r.origins[key], key, "ledgers is not set", "omit it, or set ledgers")
			}
		}
		return
	}
	for _, key := range []string{"url", "url_file", "schema"} {
		from, set := r.origins["database."+key]
		if !set || from.Layer == ByDefault {
			continue
		}
		of := c.Path("ledgers", 0) + "." + key
		remedy := "move it to a ledger of the list"
		switch from.Layer {
		case InEnvironment:
			remedy = fmt.Sprintf("unset it; ledger %[2]s has %[1]s", variable(of),
				c.Ledgers[0].Name)
		case InFlags:
			remedy = fmt.Sprintf("omit it; ledger %[2]s has %[1]s", of, c.Ledgers[0].Name)
		}
		r.problem(from, "database."+key, "ledgers is set too", remedy)
	}
	if len(c.Ledgers) > maxLedgers {
		r.problem(r.origins[c.Path("ledgers", maxLedgers)+".name"], "ledgers",
			fmt.Sprintf("%d ledgers", len(c.Ledgers)),
			fmt.Sprintf("the maximum is %d", maxLedgers))
	}
	if len(c.Ledgers) > 1 && c.Directory.URL.Reveal() == "" &&
		r.good("directory.url", "directory.url_file") {
		r.problem(r.at(0), "directory.url", "missing",
			"set it, so that no account is in two ledgers")
	}
	for i, s := range c.Submitters {
		key := c.Path("submitters", i) + ".ledger"
		if _, known := c.ledger(s.Ledger); s.Ledger != "" && !known && r.good(key) {
			r.problem(r.origins[key], key, fmt.Sprintf("ledgers has no %q", s.Ledger),
				"use one of "+strings.Join(c.LedgerNames(), ", "))
		}
	}
}

// LedgerNames returns the names of several ledgers; none: there is one, in database.url.
func (c *Config) LedgerNames() (names []string) {
	for _, l := range c.Ledgers {
		names = append(names, l.Name)
	}
	return names
}

func (c *Config) ledger(name string) (Ledger, bool) {
	for _, l := range c.Ledgers {
		if l.Name == name {
			return l, true
		}
	}
	return Ledger{}, false
}

// OfLedger returns the configuration of one ledger, as if there were no other: its database, and
// the submitters that are registered in it. An empty name is the one in database.url.
func (c *Config) OfLedger(name string) (*Config, error) {
	if len(c.Ledgers) == 0 && name == "" {
		return c, nil
	}
	l, known := c.ledger(name)
	switch {
	case len(c.Ledgers) == 0:
		return nil, fmt.Errorf("unknown ledger %q: the configuration has no ledgers; omit the "+
			"name, or set ledgers", name)
	case !known && name == "":
		return nil, fmt.Errorf("the configuration has several ledgers; name one of %s",
			strings.Join(c.LedgerNames(), ", "))
	case !known:
		return nil, fmt.Errorf("unknown ledger %q; use one of %s", name,
			strings.Join(c.LedgerNames(), ", "))
	}
	one := *c
	one.Database.URL, one.Database.URLFile = l.URL, l.URLFile
	one.Database.Schema, one.ledgerName = l.Schema, name
	one.Ledgers, one.Submitters = nil, nil
	for _, s := range c.Submitters {
		if s.Ledger == name || s.Ledger == "" && name == c.Ledgers[0].Name {
			one.Submitters = append(one.Submitters, s)
		}
	}
	return &one, nil
}

// LedgerName is the name of the ledger in Database; empty: it is the only one.
func (c *Config) LedgerName() string { return c.ledgerName }

// DatabaseKey returns the key of the URL in Database.
func (c *Config) DatabaseKey() string {
	if c.ledgerName == "" {
		return "database.url"
	}
	return "ledgers." + c.ledgerName + ".url"
}
