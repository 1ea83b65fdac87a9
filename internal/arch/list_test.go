package arch

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestList_MatchesGoList(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	source := "package p\n\nimport _ \"" + Module + "/txn\"\n"
	for name, content := range map[string]string{
		"go.mod":              "module " + Module + "\n",
		"docs/design.md":      "",
		"store/a/a.go":        source,
		"store/a/a_test.go":   "package p\n\nimport _ \"" + Module + "/engine\"\n",
		"node_modules/x/x.go": source,
		"store/testdata/x.go": source,
		"store/_old/x.go":     source,
		".cache/x.go":         source,
		"tools/go.mod":        "module " + Module + "/tools\n",
		"tools/x.go":          source,
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{{Path: "store/a", Imports: []string{"txn"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("List = %v, want %v", got, want)
	}
}
