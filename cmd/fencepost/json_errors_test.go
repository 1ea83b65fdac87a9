package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// failing has a command line of each command that fails when it runs, after its flags and arguments
// are accepted. @ is an empty folder; no node listens on the server.
var failing = map[string]string{
	"archive":                "--config @/none --out @",
	"audit export":           "--config @/none --key @/none --out @/history",
	"audit verify":           "@/none --public-key @/none",
	"balances":               "",
	"bench":                  "--to " + recipient + " --submitter alice",
	"config check":           "--config @/none",
	"config show":            "--config @/none",
	"costs":                  "--by day --from 2026-01-01",
	"explain-rpc-error":      "",
	"help":                   "nothing",
	"key import":             "--dir @ @/none",
	"key list":               "--dir @/none",
	"key new":                "--dir @/none --password-file @/none",
	"ledger join":            "north --config @/none",
	"ledger list":            "--config @/none",
	"migrate down":           "--config @/none",
	"migrate grants":         "--config @/none --role nodes",
	"migrate status":         "--config @/none",
	"migrate up":             "--config @/none",
	"nonce allocate":         "a",
	"nonce extend":           anID,
	"nonce list":             "a",
	"nonce quarantine":       anID,
	"nonce record":           anID + " 0x" + strings.Repeat("0", 64),
	"nonce release":          anID + " --never-signed",
	"nonce resolve":          "a 1 --fill --reason x",
	"nonce show":             anID,
	"nonce submit":           anID + " --raw-tx 0x00",
	"pool add":               "p a",
	"pool create":            "p --chain-id 1",
	"pool drain":             "p a",
	"pool list":              "",
	"pool remove":            "p a",
	"pool show":              "p",
	"recover":                "--config @/none --yes",
	"serve":                  "--config @/none",
	"sink list":              "",
	"sink pause":             "hook",
	"sink replay":            "hook --from 2026-01-02T03:04:05Z",
	"sink resume":            "hook",
	"sink retry":             "hook",
	"sink show":              "hook",
	"sink skip":              "hook " + anID,
	"status":                 "",
	"submitter add":          "a --chain-id 1 --address " + recipient + " --signer local",
	"submitter exit-protect": "a --protection 1 --resume --reason x",
	"submitter list":         "",
	"submitter log":          "",
	"submitter move":         "a --to us1 --config @/none",
	"submitter pause":        "a",
	"submitter protect":      "a --reason x",
	"submitter resume":       "a",
	"submitter show":         "a",
	"submitter update":       "a --on-failure pause",
	"submitter void-top-up":  "a --reason x --config @/none",
	"tx approve":             anID,
	"tx cancel":              anID,
	"tx create":              "--submitter a --to " + recipient,
	"tx deny":                anID,
	"tx get":                 anID,
	"tx list":                "",
	"tx resolve":             anID + " --retry --reason x",
	"tx simulate":            "--submitter a --to " + recipient,
	"tx speed-up":            anID,
	"tx watch":               anID + " --tls-ca @/none", // it waits for an unavailable node
	// These print constants.
	"version":               "extra",
	"completion bash":       "extra",
	"completion fish":       "extra",
	"completion powershell": "extra",
	"completion zsh":        "extra",
}

const anID = "01a21fca-9bb7-8000-8000-058ead4b4abd"

// TestError_JSON_EveryCommand walks all commands: with --json, whatever fails is one JSON object on
// standard error that has the exit code and a remedy.
func TestError_JSON_EveryCommand(t *testing.T) {
	t.Parallel()
	p := &program{}
	root := p.root()
	p.addCommon(root)
	all, leaves := []*cobra.Command{root}, 0
	for i := 0; i < len(all); i++ {
		c := all[i]
		all = append(all, c.Commands()...)
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), root.Name()), " ")
		words := strings.Fields(path)
		wantJSONError(t, "USAGE", append(words, "--no-such-flag", "--json")...)
		wantJSONError(t, "USAGE", append([]string{"--json"}, append(words, "--no-such-flag")...)...)
		if c.HasSubCommands() {
			wantJSONError(t, "USAGE", append(words, "no-such-command", "--json")...)
			continue
		}
		leaves++
		line, known := failing[path]
		if !known {
			t.Errorf("command %q has no failing command line in this test; add one", path)
			continue
		}
		args := append(words, strings.Fields(line)...)
		if c.Flag("server") != nil {
			args = append(args, "--server", "127.0.0.1:1")
		}
		wantJSONError(t, "", append(args, "--json")...)
	}
	if leaves != len(failing) {
		t.Errorf("%d commands, %d command lines; remove those of former commands", leaves,
			len(failing))
	}
}

// wantJSONError runs a command line that must fail with a code of its own, or any code.
func wantJSONError(t *testing.T, code string, args ...string) {
	t.Helper()
	out, errs, exit := newShell(t).run(args...)
	var f failure
	dec := json.NewDecoder(strings.NewReader(errs))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil || strings.Count(errs, "\n") != 1 {
		t.Errorf("%q printed %q, want one JSON object: %v", args, errs, err)
		return
	}
	if out != "" && !json.Valid([]byte(out)) {
		t.Errorf("%q printed %q as its result, want none or JSON", args, out)
	}
	if f.ExitCode != exit || exit == exitDone || f.Message == "" || f.Remedy == "" ||
		code != "" && f.Code != code {
		t.Errorf("%q gave %d: %s", args, exit, errs)
	}
	if got := f.Code == "UNAVAILABLE"; got != (strings.Contains(errs, "127.0.0.1:1")) {
		t.Errorf("%q gave code %s: %s", args, f.Code, errs)
	}
}
