package pgembed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakePrograms makes a folder with programs that report a version.
func fakePrograms(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + " (from somewhere)'\n"
	for _, name := range []string{"postgres", "initdb"} {
		writeProgram(t, filepath.Join(dir, name), []byte(script))
	}
	return dir
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	type test struct {
		name, dir string
		major     int
		refused   string
	}
	tests := []test{
		{"release", fakePrograms(t, filepath.Join(dir, "a"), "15.14"), 15, ""},
		{"beta", fakePrograms(t, filepath.Join(dir, "b"), "19beta2"), 19, ""},
		{"nonsense", fakePrograms(t, filepath.Join(dir, "c"), "x"), 0, "postgres --version prints"},
		{"empty folder", empty, 0, "it has no postgres"},
		{"no folder", filepath.Join(dir, "none"), 0, "it has no postgres"},
	}
	if osRoot() { // an owner who lacks permissions on a folder of their own expects the error
		closed := fakePrograms(t, filepath.Join(dir, "closed", "bin"), "16.1")
		if err := os.Chmod(filepath.Dir(closed), 0o600); err != nil {
			t.Fatal(err)
		}
		tests = append(tests,
			test{"closed folder", closed, 0, "may not enter " + filepath.Dir(closed)})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found, refused := find(t.Context(), tt.dir, serverAccount(), "/")
			if tt.major > 0 && !slices.Equal(found, []Programs{{tt.dir, tt.major}}) {
				t.Errorf("found %v, refused %v", found, refused)
			}
			if tt.major == 0 {
				err := missing(refused)
				if !strings.Contains(err.Error(), tt.refused) ||
					!strings.Contains(err.Error(), "set PG_BIN") {
					t.Errorf("found %v, error %v", found, err)
				}
			}
		})
	}
}

// In order: PG_BIN rules out the rest; PATH leads through links; node_modules
// above the working folder come last, with their links made.
func TestCandidates(t *testing.T) { // not parallel: changes the environment
	dir := publicDir(t)
	t.Setenv("PG_BIN", "")
	whole := fakePrograms(t, filepath.Join(dir, "real"), "14.1")
	linked := filepath.Join(dir, "linked")
	if err := os.Mkdir(linked, 0o755); err != nil {
		t.Fatal(err)
	}
	err := os.Symlink(filepath.Join(whole, "postgres"), filepath.Join(linked, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", linked)
	work := filepath.Join(dir, "project", "deep")
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	npm := npmPackage(t, filepath.Join(dir, "project"))

	got := candidates("")
	if at := slices.Index(got, whole); at < 0 || slices.Index(got, npm) < at {
		t.Errorf("candidates are %v; want %s and then %s", got, whole, npm)
	}
	found, refused := find(t.Context(), "", serverAccount(), "/")
	if !slices.Contains(found, Programs{npm, 18}) {
		t.Errorf("found %v, refused %v", found, refused)
	}
	lib := filepath.Join(filepath.Dir(npm), "lib", "libx.so")
	if text, err := os.ReadFile(lib); err != nil || string(text) != "library" {
		t.Errorf("the package's link: %q, %v", text, err)
	}
	t.Setenv("PG_BIN", linked)
	if got := candidates(""); !slices.Equal(got, []string{linked}) {
		t.Errorf("with PG_BIN: %v", got)
	}
	if got := candidates("deep"); !slices.Equal(got, []string{filepath.Join(work, "deep")}) {
		t.Errorf("with a folder named: %v", got)
	}
}

// npmPackage lays a package out as npm leaves it when install scripts are off.
func npmPackage(t *testing.T, project string) (bin string) {
	t.Helper()
	t.Chdir(project)
	dirs := fromNPM()
	bin = fakePrograms(t, dirs[0], "18.4")
	native := filepath.Dir(bin)
	if err := os.Mkdir(filepath.Join(native, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"lib/libx.so.1.2":  "library",
		"pg-symlinks.json": `[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so"}]`,
	} {
		if err := os.WriteFile(filepath.Join(native, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(project, "deep"))
	return bin
}

func TestHydrate_LinkOutsidePackage_Refused(t *testing.T) {
	t.Parallel()
	bin := fakePrograms(t, filepath.Join(publicDir(t), "native", "bin"), "18.4")
	list := `[{"source":"native/lib/x","target":"../../escaped"}]`
	if err := os.WriteFile(filepath.Join(filepath.Dir(bin), "pg-symlinks.json"), []byte(list),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := hydrate(bin); err == nil ||
		!strings.Contains(err.Error(), "leads out of its package") {
		t.Errorf("hydrate: %v", err)
	}
}

func TestChoose_DataVersion(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	f := &folder{path: dir, account: serverAccount()}
	if err := os.Mkdir(f.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	bin := fakePrograms(t, filepath.Join(dir, "bin"), "18.4")
	if p, err := choose(t.Context(), bin, f); err != nil || p.Major != 18 {
		t.Errorf("an empty data folder: %v, %v", p, err)
	}
	if err := os.Mkdir(f.data(), 0o700); err != nil {
		t.Fatalf("it was not cleared away: %v", err)
	}
	if err := os.WriteFile(filepath.Join(f.data(), "photo.jpg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := choose(t.Context(), bin, f); err == nil ||
		!strings.Contains(err.Error(), "is not the data of a PostgreSQL") {
		t.Errorf("a folder of something else: %v", err)
	}
	for content, want := range map[string]string{
		"18\n": "", "13\n": "were made by PostgreSQL 13, and there is only PostgreSQL 18 (in " +
			bin + ")", "": "names no version",
	} {
		file := filepath.Join(f.data(), "PG_VERSION")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := choose(t.Context(), bin, f)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("PG_VERSION %q: %v", content, err)
		}
	}
}

func TestStart_UnreachableFolder_Refused(t *testing.T) {
	t.Parallel()
	if !osRoot() {
		t.Log("this user's server runs as the user: no folder of its own is out of reach")
		return
	}
	closed := filepath.Join(publicDir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "here", "pg")
	_, err := Start(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "may not enter "+closed+":") {
		t.Errorf("Start: %v", err)
	}
	got := ReachableDir(dir)
	if !strings.HasPrefix(got, "/var/lib/fencepost/pg-") || got != ReachableDir(dir) ||
		got == ReachableDir(dir+"2") {
		t.Errorf("ReachableDir: %s", got)
	}
	if open := filepath.Join(filepath.Dir(closed), "open"); ReachableDir(open) != open {
		t.Errorf("ReachableDir moves %s to %s", open, ReachableDir(open))
	}
}

func TestStart_LongPath_ShortSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(publicDir(t), strings.Repeat("long", 30))
	if err := os.Rename(usedDir(t), dir); err != nil {
		t.Fatal(err)
	}
	s := mustStart(t, Options{Dir: dir})
	if len(s.Socket()) > socketLimit || query[int](t, s.URL("postgres"), "select 1") != 1 {
		t.Errorf("the socket is %s", s.Socket())
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(s.Socket())); !os.IsNotExist(err) {
		t.Errorf("the socket's folder stays: %v", err)
	}
	// In a world-writable folder another user may have created it first.
	if err := os.Mkdir(filepath.Dir(s.Socket()), 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(filepath.Dir(s.Socket()))
	if _, err := Start(t.Context(), Options{Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), "is not a private folder of") {
		t.Errorf("Start in a foreign folder: %v", err)
	}
}

func TestSweep(t *testing.T) { // not parallel: changes the temporary folder
	t.Setenv("TMPDIR", publicDir(t))
	leave := func(age time.Duration) string {
		dir, err := os.MkdirTemp("", tempPrefix)
		if err != nil {
			t.Fatal(err)
		}
		lock := filepath.Join(dir, "lock")
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(lock, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	left := leave(2 * abandonedAfter)
	fresh := leave(0)
	held := leave(2 * abandonedAfter)
	lock, err := os.Open(filepath.Join(held, "lock"))
	if err != nil || !tryLock(lock) {
		t.Fatalf("lock: %v", err)
	}
	defer lock.Close()
	sweep()
	for dir, stays := range map[string]bool{left: false, fresh: true, held: true} {
		if _, err := os.Stat(dir); (err == nil) != stays {
			t.Errorf("%s: stays %v, want %v", dir, err == nil, stays)
		}
	}
}
