package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/chain"
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/txn"
)

// CheckFiles tries the files that a node needs at its start as the node would: it reads certificates and tokens, decrypts the keys, looks for that of each submitter, and reads the ABIs. It
// contacts nobody and takes no port. The error is of type config.Problems and tells everything at once.
func CheckFiles(ctx context.Context, cfg *config.Config, log *slog.Logger) (keys int, err error) {
	all := config.Problems(problem(cfg, "database.url", unreadable(cfg.Database.URL.Reveal())))
	all = append(all, accessProblem(cfg)...)
	held := map[string][]txn.Address{} // by signer; none of one that does not open, which is told once
	for _, s := range cfg.Signers {
		store, err := openKeys(ctx, s, log)
		if err == nil {
			held[s.Name], err = store.Addresses(ctx)
		}
		all = append(all, problem(cfg, "signers."+s.Name+".keystore.dir", err)...)
		keys += len(held[s.Name])
	}
	for _, s := range cfg.Submitters {
		if list, opened := held[s.Signer]; opened && !slices.Contains(list, s.Address) {
			all = append(all, problem(cfg, "submitters."+s.Name+".address", noKey(s))...)
		}
	}
	for _, c := range cfg.Chains {
		_, err := chain.LoadErrors(c.ABIFiles...)
		all = append(all, problem(cfg, "chains."+c.Name+".abi_files", err)...)
	}
	if len(all) > 0 {
		return keys, all
	}
	return keys, nil
}

// accessProblem tells what is wrong with the certificates and tokens.
func accessProblem(cfg *config.Config) []config.Problem {
	_, err := readAccess(cfg)
	var file *fileError
	if errors.As(err, &file) {
		return problem(cfg, file.key, file.err)
	}
	return nil
}

// unreadable tells of a certificate or key that a database URL names and that cannot be read. It says nothing else of the URL.
func unreadable(url string) error {
	var file *fs.PathError
	if _, err := pgx.ParseConfig(url); errors.As(err, &file) {
		return fmt.Errorf("file %s of the URL cannot be read (%w)", file.Path, file.Err)
	}
	return nil
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
