package pgembed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
)

// Standby starts a standby of this server: it replays the primary's WAL, answers reads, and becomes
// a primary by pg_promote(). The primary is down for a moment while its data are copied, because
// some installations lack pg_basebackup. The standby's name is its application_name, for
// synchronous_standby_names; commits wait for it only once it is listed there.
func (s *Server) Standby(ctx context.Context, name string, o Options) (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	standby, err := s.standby(ctx, name, o)
	if err != nil {
		return nil, fmt.Errorf("pgembed: start a standby: %w", err)
	}
	return standby, nil
}

func (s *Server) standby(ctx context.Context, name string, o Options) (_ *Server, err error) {
	if s.proc == nil || s.closed {
		return nil, errors.New("the primary is not running: start it first")
	}
	o.BinDir = s.programs.Dir // must match the version of the data
	o.Settings = maps.Clone(o.Settings)
	if o.Settings == nil {
		o.Settings = map[string]string{}
	}
	o.Settings["primary_conninfo"] = "host='" + s.dir.socket + "' port=" + strconv.Itoa(
		s.port) + " user=" + superuser + " application_name='" + name + "'"
	o.seed = func(f *folder) error {
		if _, err := os.Stat(f.data()); err == nil {
			return fmt.Errorf("%s has data already: remove them, or choose another folder", f.path)
		}
		err := s.proc.stop(ctx)
		s.proc = nil
		if err != nil {
			return err
		}
		return errors.Join(f.copyFrom(s.dir), s.launch(ctx))
	}
	return start(ctx, o)
}

// copyFrom makes this folder's data a copy of another's, whose server is down. The copy appears by
// a rename, as the data of initdb do, and starts as a standby.
func (f *folder) copyFrom(other *folder) error {
	fresh := f.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := f.copyTree(other.data(), fresh); err != nil {
		return err
	}
	if err := f.writeOwn(filepath.Join(fresh, "standby.signal"), nil); err != nil {
		return err
	}
	password, err := other.password()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.path, "password"), []byte(password), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, f.data())
}

func (f *folder) copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case entry.IsDir():
			return f.ownFolder(target)
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a folder", path)
		}
		source, err := os.Open(path)
		if err != nil {
			return err
		}
		defer source.Close()
		return f.writeOwn(target, source)
	})
}

// writeOwn writes a file owned by the server's account; nil content means empty.
func (f *folder) writeOwn(path string, content io.Reader) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if content != nil {
		_, err = io.Copy(file, content)
	}
	return errors.Join(err, file.Close(), f.account.own(path))
}
