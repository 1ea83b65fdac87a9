package arch

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var asksTheMachine = regexp.MustCompile(
	`\btime\.(Now|Since|Until|NewTimer|NewTicker|After|AfterFunc|Tick|Sleep)\b`)

// Code outside of a node may read the machine's clock: programs, and packages for tests only.
var mayAskTheMachine = []string{
	"sign/signtest/",
	"internal/clock/",
	"cmd/",
	"bench/",
	"examples/",
	"gen/",
	"tools/",
	"chain/conformance/",
	"internal/run/runtest/",
}

// TestTime_OnlyFromClock: a node under a scheduler of a simulation must not wait for anything else.
func TestTime_OnlyFromClock(t *testing.T) {
	t.Parallel()
	looked := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+"/"))
		if entry.IsDir() && (outside(path, entry.Name()) && path != root) {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		for _, free := range mayAskTheMachine {
			if strings.HasPrefix(name, free) {
				return nil
			}
		}
		looked++
		for _, found := range asksTheMachine.FindAllString(string(readFile(t, name)), -1) {
			t.Errorf("%s uses %s: take a clock.Clock, or clock.Real", name, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 50 {
		t.Errorf("only %d files were looked at", looked)
	}
}
