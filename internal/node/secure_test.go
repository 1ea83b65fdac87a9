package node

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/config"
)

func TestReadTokens(t *testing.T) {
	t.Parallel()
	const one, two = "0123456789abcdef", "MTIzNDU2Nzg5MDEyMzQ1Ng=="
	for name, c := range map[string]struct {
		text string
		want []string
		says string
	}{
		"two":       {"# of the shop\n" + one + "\r\n\n  " + two + "  \n", []string{one, two}, ""},
		"none":      {"# none\n", nil, "has no token"},
		"short":     {one + "\n0123456789abcde\n", nil, "line 2 of "},
		"two words": {one + " " + two, nil, "line 1 of "},
		"not ASCII": {one + "ä", nil, "line 1 of "},
		"long":      {strings.Repeat("a", 513), nil, "line 1 of "},
		"endless":   {strings.Repeat("a", 1<<17), nil, "too long"},
		"very many": {strings.Repeat(one+"\n", 1001), nil, "maximum is 1000"},
		"the most":  {strings.Repeat(one+"\n", 1000), slices.Repeat([]string{one}, 1000), ""},
		"binary key": {
			"\x30\x82\x01\x0a\x02\x82\x01\x01\x00\xc3\x9f\x12\x55\x10\x33\x71\x90", nil,
			"line 1 of ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readTokens(file)
			if !slices.Equal(got, c.want) || (err == nil) != (c.says == "") ||
				err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("read %d tokens, %v; want %d, %q", len(got), err, len(c.want), c.says)
			}
			if err != nil && strings.Contains(err.Error(), one) {
				t.Errorf("a token is in the error: %v", err)
			}
		})
	}
}

func TestReadAccess_InvalidFiles(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	var wrong faults
	if c := readTLS(config.TLS{}, &wrong); c != nil || wrong != nil {
		t.Errorf("plain text is %v, %v", c, wrong)
	}
	if tokens, err := readTokens(""); tokens != nil || err != nil {
		t.Errorf("no file holds %v, %v", tokens, err)
	}
	if _, err := readTokens(missing); err == nil {
		t.Error("a file that is not there is read")
	}
}

// All faults of credential files are reported at once, each with its key and remedy.
func TestReadAccess_ReportsAllFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	put(t, file("cert"), "no certificate")
	put(t, file("authorities"), "none")
	writePair(t, dir, "one.test")
	cfg := &config.Config{
		GRPC: config.GRPC{
			TLS: config.TLS{
				CertFile:     file("cert"),
				KeyFile:      file("missing-key"),
				ClientCAFile: file("authorities"),
			}, TokensFile: file("missing-tokens"),
		},
		Callers: []config.Caller{{Name: "shop", TokensFile: dir}},
	}
	said := func() string {
		_, err := CheckFiles(t.Context(), cfg, slog.New(slog.DiscardHandler), false)
		if _, starts := newCredentialReloader(cfg, slog.New(slog.DiscardHandler)); starts == nil ||
			starts.Error() != err.Error() {
			t.Errorf("config check: %v, the node: %v", err, starts)
		}
		return err.Error()
	}
	got := said()
	for _, want := range []string{
		"grpc.tls.key_file: file " + file("missing-key"),
		"grpc.tls.client_ca_file: " + file("authorities"),
		"grpc.tokens_file: file " + file("missing-tokens"),
		"callers[0].tokens_file: cannot read file " + dir + " (is a directory)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	cfg.GRPC.TLS.KeyFile = file("pair.pem")
	if got := said(); !strings.Contains(
		got,
		"grpc.tls.cert_file: "+file("cert")+" and "+file(
			"pair.pem")+" are not a certificate and its key (",
	) {
		t.Error(got)
	}
}

// A path may contain the separator of cause and remedy.
func TestProblem_SeparatorInPath(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a; b")
	cfg := &config.Config{GRPC: config.GRPC{TokensFile: file}}
	_, err := CheckFiles(t.Context(), cfg, slog.New(slog.DiscardHandler), false)
	var got config.Problems
	if !errors.As(err, &got) || len(got) != 1 || !strings.Contains(got[0].What, file) ||
		got[0].Remedy == "" || strings.Contains(got[0].Remedy, "b does not exist") {
		t.Errorf("%+v", got)
	}
}
