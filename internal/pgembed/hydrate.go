package pgembed

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// hydrate creates the links that an npm package of server programs cannot contain. The package
// lists them and creates them in an install script, which is often disabled. A folder without such
// a list is unchanged.
func hydrate(binDir string) error {
	native := filepath.Dir(binDir)
	list, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if err != nil {
		return nil //nolint:nilerr // no list, no links: running the programs reports the cause
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(list, &links); err != nil {
		return fmt.Errorf("read pg-symlinks.json: %w", err)
	}
	root := filepath.Dir(native) // the list's paths begin with native/
	for _, l := range links {
		if !filepath.IsLocal(l.Source) || !filepath.IsLocal(l.Target) {
			return fmt.Errorf("pg-symlinks.json leads out of its package: %s", l.Target)
		}
		if err := link(filepath.Join(root, l.Source), filepath.Join(root, l.Target)); err != nil {
			return fmt.Errorf("make a library's link, which the package lacks: %w", err)
		}
	}
	return nil
}

// link creates a relative link to file, unless it exists.
func link(file, at string) error {
	if _, err := os.Lstat(at); err == nil {
		return nil
	}
	to, err := filepath.Rel(filepath.Dir(at), file)
	if err != nil {
		return err
	}
	if err := os.Symlink(to, at); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
