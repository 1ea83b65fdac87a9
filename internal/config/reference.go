package config

import (
	_ "embed" // for the example
	"fmt"
	"strings"
)

//go:embed example.yaml
var example string

const introduction = "" +
	"<!-- Generated from internal/config by `make generate`; do not edit. -->\n\n" +
	"# Configuration\n\n" +
	"A node reads one YAML file, then environment variables, then `--set` flags; the later win over the earlier. `fencepost config check` reports everything\n" +
	"that is wrong at once, each with its line and a remedy; `fencepost config show` prints every key as it is in force and where it comes from. The file is\n" +
	"named by `--config` or `FENCEPOST_CONFIG`.\n\n" +
	"Unknown keys are errors. A value is taken as it is written, so quotes are needed only where YAML needs them. Anchors and aliases work; merge keys (`<<`)\n" +
	"do not. Paths in the file are relative to the file's folder, elsewhere to the working folder.\n\n" +
	"**Environment.** The variable of a key is its path in capitals, with `_` for everything that is not a letter or digit, after `FENCEPOST_`:\n" +
	"`FENCEPOST_LEASE_DURATION` for `lease.duration`. Elements of lists go by their names: `FENCEPOST_CHAINS_DEV_RPC` for the `rpc` of the chain `dev`, with\n" +
	"commas between several values. Elements and their names can be written in the file alone. An empty variable counts as not set. A variable of this\n" +
	"prefix that goes with no key is an error, except those that Kubernetes sets for services.\n\n" +
	"**Flags.** `--set lease.duration=20s`, `--set chains.dev.confirmations=5`, as often as needed. Secrets cannot be set by flags, which every user of a machine\n" +
	"can read.\n\n" +
	"**Secrets** are never printed: the password in `database.url`, and all of `chains.*.rpc`.\n\n" +
	"A file that is enough:\n\n```yaml\n%s```\n\n"

// Reference is docs/configuration.md.
func Reference() string {
	var b strings.Builder
	fmt.Fprintf(&b, introduction, example)
	for _, e := range entries(schema()) {
		writeSection(&b, e)
	}
	b.WriteString("## What must hold between keys\n\n")
	for _, relation := range relations() {
		fmt.Fprintf(&b, "- %s\n", relation.text)
	}
	return b.String()
}

func writeSection(b *strings.Builder, e entry) {
	title, prefix := e.name, e.name
	if e.list {
		title, prefix = e.name+" (list)", e.name+".*"
	}
	text := e.text
	if e.list && e.required {
		text += " At least one is required."
	}
	fmt.Fprintf(b, "## %s\n\n%s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", title,
		text)
	writeRows(b, prefix, e.inner)
	b.WriteString("\n")
}

func writeRows(b *strings.Builder, prefix string, rows []entry) {
	for _, e := range rows {
		key := join(prefix, e.name)
		if e.inner != nil {
			fmt.Fprintf(b, "| `%s` | group | | %s |\n", key, e.text)
			writeRows(b, key, e.inner)
			continue
		}
		byDefault := "none"
		switch {
		case e.required:
			byDefault = "**required**"
		case e.byDefault != "":
			byDefault = "`" + e.byDefault + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", key, e.about, byDefault, e.text)
	}
}

// paths lists the keys of the table, with "*" for the elements of lists.
func paths(prefix string, all []entry) []string {
	var found []string
	for _, e := range all {
		path := join(prefix, e.name)
		if e.inner == nil {
			found = append(found, path)
			continue
		}
		if e.list {
			path += ".*"
		}
		found = append(found, paths(path, e.inner)...)
	}
	return found
}
