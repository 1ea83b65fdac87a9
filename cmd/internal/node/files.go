package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// CheckFiles tries the files that a node needs at its start as the node would: it reads certificates and tokens, decrypts the keys, looks for that of each submitter, and reads the ABIs. It
// contacts nobody and takes no port. The error is of type config.Problems and tells everything at once. A configuration that is wrong otherwise may be given too: of that
// the files are tried whose own keys are right.
func CheckFiles(ctx context.Context, cfg *config.Config, log *slog.Logger) (keys int, err error) {
	all := config.Problems(problem(cfg, "database.url", unreadable(cfg.Database.URL.Reveal())))
	warnOfReaders(cfg, log)
	WarnOfRisks(cfg, log)
	_, wrong := readAccess(cfg)
	all = append(all, wrong.problems(cfg)...)
	held := map[string][]txn.Address{} // by signer; none of one that does not open, which is told once
	for i, s := range cfg.Signers {
		list, opened, wrong := tryKeys(ctx, s, cfg.Path("signers", i)+".keystore", log)
		all = append(all, wrong.problems(cfg)...)
		if opened && s.Name != "" {
			held[s.Name] = list
		}
		keys += len(list)
	}
	for i, s := range cfg.Submitters {
		if list, opened := held[s.Signer]; opened && s.Address != (txn.Address{}) &&
			!slices.Contains(list, s.Address) {
			all = append(all, problem(cfg, cfg.Path("submitters", i)+".address", noKey(s))...)
		}
	}
	for i, c := range cfg.Chains {
		_, err := chain.LoadErrors(c.ABIFiles...)
		all = append(all, problem(cfg, cfg.Path("chains", i)+".abi_files", err)...)
	}
	if len(all) > 0 {
		return keys, all
	}
	return keys, nil
}

// warnOfReaders tells which files of tokens others than this user can read; the key stores tell of theirs.
func warnOfReaders(cfg *config.Config, log *slog.Logger) {
	files := map[string]string{"grpc.tokens_file": cfg.GRPC.TokensFile}
	for i, c := range cfg.Callers {
		files[cfg.Path("callers", i)+".tokens_file"] = c.TokensFile
	}
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if info, err := os.Stat(files[key]); err == nil && info.Mode().Perm()&0o077 != 0 {
			log.Warn(
				"tokens can be read by other users of this machine; take the right away with chmod go=",
				"key", key, "file", files[key])
		}
	}
}

// tryKeys opens a key store, and tells of its folder and its password file apart.
func tryKeys(ctx context.Context, s config.Signer, path string,
	log *slog.Logger) (list []txn.Address, opened bool, wrong faults) {
	if s.KeyStore.PasswordFile != "" {
		_, err := sign.ReadPassword(s.KeyStore.PasswordFile)
		wrong.add(path+".password_file", err)
	}
	if s.KeyStore.Dir == "" {
		return nil, false, wrong
	}
	if s.KeyStore.PasswordFile == "" || len(wrong) > 0 { // it cannot be opened, but seen
		_, err := sign.List(s.KeyStore.Dir)
		wrong.add(path+".dir", err)
		return nil, false, wrong
	}
	held, err := openKeys(ctx, s, log)
	if err == nil {
		list, err = held.Addresses(ctx)
	}
	wrong.add(path+".dir", err)
	return list, err == nil, wrong
}

// problems are the faults as those of a configuration.
func (f faults) problems(cfg *config.Config) (all config.Problems) {
	for _, one := range f {
		all = append(all, problem(cfg, one.key, one.err)...)
	}
	return all
}

// unreadable tells of a certificate or key that a database URL names and that cannot be read. It says nothing else of the URL.
func unreadable(url string) error {
	if url == "" { // it would mean the one that the environment describes
		return nil
	}
	var file *fs.PathError
	if _, err := pgx.ParseConfig(url); errors.As(err, &file) {
		return fmt.Errorf("file %s of the URL cannot be read (%w)", file.Path, file.Err)
	}
	return nil
}

// Unreachable says of a ledger that cannot be had where it was looked for, what names that, and what to do. Any other error is left as it is. It says nothing else of the URL.
func Unreachable(err error, url, key string) error {
	if !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	cfg, bad := pgx.ParseConfig(url)
	if bad != nil {
		return err
	}
	at := net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	if strings.HasPrefix(cfg.Host, "/") { // the folder of a socket
		at = fmt.Sprintf("%s (port %d)", cfg.Host, cfg.Port)
	}
	return fmt.Errorf(
		"%s, database %q at %s: %w; see to it that PostgreSQL lets this user in there, or correct %s",
		key, cfg.Database, at, err, key)
}

// problem says where the configuration names what an error is about.
func problem(cfg *config.Config, key string, err error) []config.Problem {
	if err == nil {
		return nil
	}
	what, remedy, told := strings.Cut(strings.TrimPrefix(err.Error(), "sign: "), "; ")
	if !told {
		remedy = "make it readable for this user, or name another"
	}
	p := config.Problem{Where: "configuration", Key: key, What: what, Remedy: remedy}
	for _, s := range cfg.Settings {
		if s.Key == key {
			p.Where = fmt.Sprint(s.From)
		}
	}
	return []config.Problem{p}
}
