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
	"Check a configuration, and print the effective values:\n\n" +
	"```sh\nfencepost config check --config fencepost.yaml\n" +
	"fencepost config show --config fencepost.yaml\n```\n\n" +
	"`config check` reports all problems at once, each with its line and a remedy. " +
	"`config show`\nprints every key with its effective value and its source. " +
	"`--config` or the\nvariable `FENCEPOST_CONFIG` names the file. A minimal file:\n\n" +
	"```yaml\n%s```\n\n" +
	"A node reads one YAML file, then environment variables, then `--set` flags; later sources\n" +
	"override earlier ones. Unknown keys are errors. Values are read as text, so they need\n" +
	"quotes only where YAML requires them. Anchors and aliases work; merge keys (`<<`) do not. " +
	"Paths in\n" +
	"the file are relative to its folder, other paths to the working folder.\n\n" +
	"**Environment.** A key's variable is `FENCEPOST_` and the key's path in capitals, with `_`\n" +
	"for each character that is not a letter or digit: `FENCEPOST_LEASE_DURATION` for\n" +
	"`lease.duration`. List elements are addressed by name: `FENCEPOST_CHAINS_DEV_RPC` sets " +
	"`rpc`\n" +
	"of the chain `dev`. Several values are separated by commas. List elements and their names " +
	"can\n" +
	"be defined in the file only. An empty variable counts as unset. A variable with this " +
	"prefix\n" +
	"that matches no key is an error, except the ones that Kubernetes sets for services.\n\n" +
	"**Flags.** `--set lease.duration=20s`, `--set chains.dev.confirmations=5`, as often as\n" +
	"needed. Flags cannot set secrets, because all users of a machine can read command lines.\n\n" +
	"**Secrets** are never printed: the password in `database.url`, and all of " +
	"`chains.*.rpc` and\n`sinks.*.webhook.url`.\n\n"

// Reference returns the text of docs/configuration.md.
func Reference() string {
	var b strings.Builder
	fmt.Fprintf(&b, introduction, example)
	for _, e := range entries(schema()) {
		writeSection(&b, e)
	}
	writeProfiles(&b)
	writeOtherNames(&b)
	b.WriteString("## Conditions between keys\n\n")
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

// paths returns the keys of the table, with "*" for list elements.
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
