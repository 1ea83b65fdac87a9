package node

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/server/auth"
)

// TestCallersReload: callers and their policies follow the configuration file. An invalid file
// changes nothing, and neither does one that would open the API.
func TestCallersReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	put(t, file("shop"), tokenA)
	put(t, file("desk"), tokenB)
	const base = "node: {name: a}\ndatabase: {url: \"postgres://u@127.0.0.1/x\"}\n" +
		"grpc: {listen: \"127.0.0.1:0\", reload_interval: 1m}\n" +
		"chains: [{name: dev, chain_id: 31337, rpc: [\"http://127.0.0.1:1\"]}]\n"
	const shop = "  - {name: shop, tokens_file: shop, submitters: [alice]}\n"
	put(t, file("node.yaml"), base+"callers:\n"+shop)
	load := func() (*config.Config, error) {
		return config.Load(config.Source{File: file("node.yaml")})
	}
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	log := logBuffer{make(chan string, 100)}
	d, err := newCredentialReloader(cfg, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	d.follow(file("node.yaml"), load)
	set := make(chan []auth.Caller, 10)
	fake := clock.NewFake(time.Now())
	signals := make(chan os.Signal, 1)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- d.run(ctx, fake, signals,
			func(_ []string, callers []auth.Caller) { set <- callers })
	}()
	defer func() { stop(); <-done }()
	change := func(what, text, logged string) (names []string) {
		t.Helper()
		put(t, file("node.yaml"), text)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for limit := time.After(time.Minute); ; {
			select {
			case line := <-log.lines:
				if !strings.Contains(line, logged) || strings.Contains(line, "0123456789") {
					t.Errorf("%s: logged %s", what, line)
				}
				select {
				case callers := <-set:
					for _, c := range callers {
						name := c.Name
						if c.Policy != nil {
							name += " limited"
						}
						names = append(names, name)
					}
				default:
				}
				return names
			case <-tick.C:
				fake.Advance(time.Minute)
			case <-limit:
				t.Fatalf("%s: nothing logged", what)
			}
		}
	}
	for _, c := range []struct {
		what, text, logged string
		want               []string
	}{
		{"a caller is added", base + "callers:\n" + shop +
			"  - {name: desk, tokens_file: desk, submitters: [\"*\"], role: operator}\n",
			"level=INFO", []string{"shop", "desk"}},
		{"an invalid file", base + "callers:\n  - {name: shop, tokens_file: shop}\n",
			"level=ERROR", nil},
		{"no file", "", "level=ERROR", nil},
		{"no callers", base, "level=ERROR", nil},
		{"a policy, and a caller less", base + "callers:\n  - {name: shop, tokens_file: shop, " +
			"submitters: [alice], policy: {value_per_tx: 5}}\n", "level=INFO",
			[]string{"shop limited"}},
		{"a missing file of tokens", base + "callers:\n  - {name: shop, tokens_file: none, " +
			"submitters: [alice]}\n", "level=ERROR", nil},
		{"another listener", strings.Replace(base, ":0", ":7", 1) + "callers:\n" + shop,
			"level=INFO", []string{"shop"}},
	} {
		if got := change(c.what, c.text, c.logged); !slices.Equal(got, c.want) {
			t.Errorf("%s: callers %v, want %v", c.what, got, c.want)
		}
	}
	// a mount may bring the configuration first: the tokens are noticed without another change
	late := base + "callers:\n  - {name: late, tokens_file: late, submitters: [alice]}\n"
	if got := change("tokens that come later", late, "level=ERROR"); got != nil {
		t.Errorf("without its tokens: callers %v", got)
	}
	put(t, file("late"), tokenB)
	if got := change("its tokens", late, "level=INFO"); !slices.Equal(got, []string{"late"}) {
		t.Errorf("with its tokens: callers %v", got)
	}
	if got := change("the first caller", base+"callers:\n"+shop, "level=INFO"); !slices.Equal(got,
		[]string{"shop"}) {
		t.Errorf("the first caller: callers %v", got)
	}
	put(t, file("shop"), tokenC) // the files of the callers in force are still followed
	signals <- syscall.SIGHUP
	if got := change("other tokens", base+"callers:\n"+shop, "level=INFO"); !slices.Equal(got,
		[]string{"shop"}) {
		t.Errorf("other tokens: callers %v", got)
	}
}
