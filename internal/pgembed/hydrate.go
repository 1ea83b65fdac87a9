package pgembed

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// hydrate makes the links that an npm package of server programs cannot hold.
// The package lists them and makes them in an install script, which is often
// turned off. Folders without such a list are left alone.
func hydrate(binDir string) error {
	native := filepath.Dir(binDir)
	list, err := os.ReadFile(filepath.Join(native, "pg-symlinks.json"))
	if err != nil {
		return nil //nolint:nilerr // no list, no links: the programs are tried next and will tell
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

// link makes at a relative link to file. One that is there already stays.
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
