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
	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/store"
	"github.com/fencepost/fencepost/txn"
)

// CheckFiles reads the files that a node needs at its start, as the node would: certificates,
// tokens, keys (including the key of each submitter), secrets of sinks and ABIs. Unless offline, it
// asks remote signers for the configured keys; it opens no other connection, and no port. Of an
// invalid configuration it reads the files whose own keys are valid. The error is of type
// config.Problems and has all problems. It also warns of risks, and of grpc.max_connections above
// the open file limit of this process.
func CheckFiles(ctx context.Context, cfg *config.Config, log *slog.Logger,
	offline bool) (keys int, err error) {
	all := config.Problems(problem(cfg, "database.url", unreadable(cfg.Database.URL.Reveal())))
	for i, l := range cfg.Ledgers {
		all = append(all,
			problem(cfg, cfg.Path("ledgers", i)+".url", unreadable(l.URL.Reveal()))...)
	}
	warnOfReaders(cfg, log)
	WarnOfRisks(cfg, log)
	maxConnections(cfg, openFiles(), log) // warns of a limit that the process cannot serve
	_, wrong := readAccess(cfg)
	all = append(all, wrong.problems(cfg)...)
	_, bad := readIntentKey(cfg.Intents)
	all = append(all, problem(cfg, "intents.key_file", bad)...)
	held := map[string][]txn.Address{} // by signer; without stores that do not open, reported once
	for i, s := range cfg.Signers {
		list, opened, wrong := trySigner(ctx, s, cfg.Path("signers", i), log, offline)
		all = append(all, wrong.problems(cfg)...)
		if opened && s.Name != "" {
			held[s.Name] = list
		}
		keys += len(list)
	}
	for i, s := range cfg.Submitters {
		if list, opened := held[s.Signer]; opened && needsKey(s) &&
			s.Address != (txn.Address{}) && !slices.Contains(list, s.Address) {
			all = append(all, problem(cfg, cfg.Path("submitters", i)+".address", noKey(s))...)
		}
	}
	if _, _, err := collectorAccess(cfg.Tracing); err != nil {
		all = append(all, problem(cfg, "tracing.endpoint", err)...)
	}
	for i, s := range cfg.Sinks {
		if completeSink(s) { // else it is already reported
			_, err := sinkOpener(s)
			all = append(all, problem(cfg, cfg.Path("sinks", i)+"."+s.Kind, err)...)
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

// warnOfReaders warns of files with secrets that other users can read. Key stores warn of theirs.
func warnOfReaders(cfg *config.Config, log *slog.Logger) {
	files := map[string]string{
		"intents.key_file":     cfg.Intents.KeyFile,
		"grpc.tokens_file":     cfg.GRPC.TokensFile,
		"tracing.headers_file": cfg.Tracing.HeadersFile,
		"tracing.key_file":     cfg.Tracing.KeyFile,
	}
	for i, s := range cfg.Signers {
		for key, file := range s.Secrets() {
			files[cfg.Path("signers", i)+"."+key] = file
		}
	}
	for i, s := range cfg.Sinks {
		for key, file := range s.Secrets() {
			files[cfg.Path("sinks", i)+"."+key] = file
		}
	}
	for i, c := range cfg.Callers {
		files[cfg.Path("callers", i)+".tokens_file"] = c.TokensFile
	}
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if info, err := os.Stat(files[key]); err == nil && info.Mode().Perm()&0o077 != 0 {
			log.Warn(
				"secrets readable by other users; run chmod go=",
				"key", key, "file", files[key])
		}
	}
}

// completeSink reports whether a sink has the settings that its files are read with.
func completeSink(s config.Sink) bool {
	switch s.Kind {
	case "webhook":
		return s.Webhook.URL.Reveal() != "" && s.Webhook.SecretsFile != ""
	case "kafka":
		return s.Kafka.SASL == "none" || s.Kafka.PasswordFile != ""
	}
	return s.Kind != ""
}

// trySigner opens a signer and, unless offline, checks its keys.
func trySigner(ctx context.Context, s config.Signer, path string, log *slog.Logger,
	offline bool) (list []txn.Address, opened bool, wrong faults) {
	switch {
	case s.KeyStore != nil:
		return tryKeys(ctx, s, path+".keystore", log)
	case s.KeysFile == "" || s.Group() == "": // already reported
		return nil, false, nil
	}
	holder, err := openHolder(ctx, s, log)
	if err != nil {
		wrong.add(path+"."+s.Group(), err)
		return nil, false, wrong
	}
	book, err := sign.NewBook(entry(s, holder))
	if err != nil {
		wrong.add(path, err)
		return nil, false, wrong
	}
	defer book.Close()
	list, err = book.Addresses(ctx, s.Name)
	if err == nil && !offline {
		err = book.Check(ctx, s.Name)
		if errors.Is(err, txn.ErrUnavailable) {
			err = remedy.Errorf("start it, correct the configuration, or use --offline", "%w", err)
		}
	}
	wrong.add(path+"."+s.Group(), err)
	return list, true, wrong
}

// tryKeys opens a key store. It reports faults of its folder and its password file separately.
func tryKeys(ctx context.Context, s config.Signer, path string,
	log *slog.Logger) (list []txn.Address, opened bool, wrong faults) {
	if s.KeyStore.PasswordFile != "" {
		_, err := sign.ReadPassword(s.KeyStore.PasswordFile)
		wrong.add(path+".password_file", err)
	}
	if s.KeyStore.Dir == "" {
		return nil, false, wrong
	}
	if s.KeyStore.PasswordFile == "" || len(wrong) > 0 { // cannot be opened, but listed
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

// problems are the faults as problems of a configuration.
func (f faults) problems(cfg *config.Config) (all config.Problems) {
	for _, one := range f {
		all = append(all, problem(cfg, one.key, one.err)...)
	}
	return all
}

// unreadable is the error of a certificate or key file in a database URL. It does not quote the
// URL.
func unreadable(url string) error {
	if url == "" { // it would mean the database in the environment
		return nil
	}
	var file *fs.PathError
	if _, err := pgx.ParseConfig(url); errors.As(err, &file) {
		return remedy.Errorf(remedy.OfFile(err),
			"cannot read file %s of the URL (%w)", file.Path, file.Err)
	}
	return nil
}

// Unreachable adds the address of the database, and the key that configures it, to an error of an
// unavailable ledger. Other errors are unchanged. It does not quote the URL.
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
	advice := "check that PostgreSQL runs there"
	if errors.Is(err, store.ErrAccessDenied) {
		advice = "check that PostgreSQL accepts this user"
	}
	return fmt.Errorf("%s, database %q at %s: %w; %s, or correct %s",
		key, cfg.Database, at, err, advice, key)
}

// problem adds the place in the configuration to an error.
func problem(cfg *config.Config, key string, err error) []config.Problem {
	if err == nil {
		return nil
	}
	what, advice := remedy.Of(err)
	var path *fs.PathError
	if advice == "" && errors.As(err, &path) {
		advice = remedy.OfFile(path)
	}
	what = strings.TrimPrefix(strings.TrimPrefix(what, "sign: "), "sink: ")
	p := config.Problem{Where: "configuration", Key: key, What: what, Remedy: advice}
	for _, s := range cfg.Settings {
		if s.Key == key {
			p.Where = fmt.Sprint(s.From)
		}
	}
	return []config.Problem{p}
}
