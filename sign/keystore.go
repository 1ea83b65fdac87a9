package sign

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/txn"
)

const (
	// rescanPause is the shortest time between two scans of the folder for added keys.
	rescanPause = time.Second
	// maxParallel bounds the key files that are decrypted concurrently: with standard scrypt each
	// needs a core and 256 MiB.
	maxParallel = 4
)

// KeyStoreOptions locate the keys.
type KeyStoreOptions struct {
	Dir          string // V3 key files, in geth's format; the folder is never written to
	PasswordFile string // one password for all of them
	Clock        clock.Clock
	Log          *slog.Logger
}

// KeyStore is a holder whose keys are encrypted files in a folder.
//
// All files are decrypted once, on opening, and the keys stay in memory: with standard scrypt each
// file takes about a second of one core, too long for each signature. Opening fails if any file
// cannot be opened, because a silently missing key would be noticed only when its transactions are
// not sent. Later the folder is scanned again when a missing key is requested, at most once a
// second, so an added key is found without a restart. A file that cannot be opened then is logged
// and does not affect the others. The file of a key is looked at again at most a second before the
// key is used, so the key of a removed or replaced file is not used, and is wiped.
//
// Keys are kept in locked memory. The password is not: Go cannot wipe a text.
type KeyStore struct {
	dir          string
	passwordFile string
	password     string
	clock        clock.Clock
	log          *slog.Logger

	vault vault
	mu    sync.RWMutex
	keys  map[txn.Address]*heldKey
	gone  map[txn.Address]time.Time // when keys were removed
	look  chan struct{}             // holds one value, which a look at a file takes

	scans atomic.Uint64 // scans of the folder that have begun
	// turn holds one value, which the scanning goroutine takes; it owns the fields below.
	turn  chan struct{}
	ended time.Time          // when the last scan ended
	whole bool               // it was complete
	seen  map[string]KeyFile // by path, from the last scan
}

// OpenKeyStore decrypts the keys of a folder.
func OpenKeyStore(ctx context.Context, o KeyStoreOptions) (*KeyStore, error) {
	password, err := ReadPassword(o.PasswordFile)
	if err != nil {
		return nil, err
	}
	k := &KeyStore{
		dir: o.Dir, passwordFile: o.PasswordFile, password: password, clock: o.Clock,
		log:  o.Log.With("keystore", o.Dir),
		keys: map[txn.Address]*heldKey{}, seen: map[string]KeyFile{},
		gone: map[txn.Address]time.Time{},
		turn: make(chan struct{}, 1),
		look: make(chan struct{}, 1),
	}
	k.turn <- struct{}{}
	k.look <- struct{}{}
	files, err := k.list()
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	k.warnOfReaders(append(files, KeyFile{Path: o.PasswordFile}))
	begin := k.clock.Now()
	if err := k.openAll(ctx, files); err != nil {
		return nil, fmt.Errorf("sign: open key store: %w", err)
	}
	if k.vault.unlocked != nil {
		k.log.Warn("keys not locked in memory and may be swapped out; raise the limit of locked "+
			"memory (ulimit -l, LimitMEMLOCK)", "error", k.vault.unlocked)
	}
	k.log.Info("keys opened", "keys", len(k.keys), "took", k.clock.Now().Sub(begin))
	return k, nil
}

// openAll decrypts files concurrently and stops at the first failure: a wrong password is wrong for
// all files.
func (k *KeyStore) openAll(ctx context.Context, files []KeyFile) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(maxParallel, runtime.GOMAXPROCS(0)))
	for i := range files {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return k.open(&files[i])
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, f := range files {
		k.seen[f.Path] = f
	}
	return nil
}

// open decrypts one file and keeps its key. The file's properties are recorded even if that fails.
func (k *KeyStore) open(f *KeyFile) error {
	content, address, err := readKeyFile(f.Path)
	f.Address, f.Broken = address, err
	if err != nil {
		return fmt.Errorf("key file %s: %w", f.Path, err)
	}
	key, err := decrypt(content, address, k.password)
	f.Broken = err
	if errors.Is(err, errPassword) {
		return remedy.Errorf(
			"put the key's password into the signer's password_file, or move the file to the "+
				"folder of another signer",
			"key file %s: %w", f.Path, err)
	}
	if err != nil {
		return fmt.Errorf("key file %s: %w", f.Path, err)
	}
	f.Address = key.Address
	kept, err := k.vault.keep(key.PrivateKey)
	if err != nil {
		return err
	}
	k.hold(*f, kept)
	return nil
}

// Sign signs with the key of the sender. Errors: txn.ErrKeyMissing, txn.ErrUnavailable.
func (k *KeyStore) Sign(ctx context.Context, unsigned txn.Unsigned) ([]byte, error) {
	key, err := k.find(ctx, unsigned.From)
	if err != nil {
		return nil, err
	}
	return key.secret.sign(unsigned)
}

// Addresses returns the accounts whose keys are open.
func (k *KeyStore) Addresses(context.Context) ([]txn.Address, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return sortedAddresses(k.keys), nil
}

// find returns a key. A key counts as missing only after a scan that began after the request.
func (k *KeyStore) find(ctx context.Context, a txn.Address) (*heldKey, error) {
	if key := k.lookUp(a); key != nil {
		if same, err := k.current(ctx, key); same || err != nil {
			return key, err
		}
	}
	asked := k.scans.Load()
	select {
	case <-k.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", txn.ErrUnavailable, context.Cause(ctx))
	}
	defer func() { k.turn <- struct{}{} }()
	if k.scans.Load() == asked || !k.whole {
		if err := k.rescan(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
		}
	}
	if key := k.lookUp(a); key != nil {
		return key, nil
	}
	return nil, k.missing(a)
}

func (k *KeyStore) lookUp(a txn.Address) *heldKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.keys[a]
}

// missing returns the error for a missing key. If a file that may contain it cannot be opened, the
// error must not be final.
func (k *KeyStore) missing(a txn.Address) error {
	for _, f := range k.seen {
		if f.Broken != nil && (f.Address == a || f.Address == txn.Address{}) {
			return fmt.Errorf(
				"%w: a key file that may contain this key cannot be opened; see the log",
				txn.ErrUnavailable)
		}
	}
	if k.clock.Now().Sub(k.gone[a]) < goneGrace {
		return fmt.Errorf("%w: its key file was removed a moment ago", txn.ErrUnavailable)
	}
	return fmt.Errorf(
		"%w in the key store; copy its key file into the folder, or run \"fencepost key import\"",
		txn.ErrKeyMissing)
}

// rescan opens new or changed files, one after the other. The caller holds the turn.
func (k *KeyStore) rescan(ctx context.Context) error {
	if err := clock.Sleep(ctx, k.clock, rescanPause-k.clock.Now().Sub(k.ended)); err != nil {
		return err
	}
	k.scans.Add(1)
	k.whole = false
	defer func() { k.ended = k.clock.Now() }()
	files, err := k.list()
	if err != nil {
		k.log.Error("key store scan failed", "err", err)
		return errors.New("the key store folder cannot be read; see the log")
	}
	known := k.seen
	k.seen = make(map[string]KeyFile, len(files))
	for _, f := range files {
		if old, ok := known[f.Path]; ok && old.stamp == f.stamp {
			k.seen[f.Path] = old
		}
	}
	for _, f := range files {
		if _, ok := k.seen[f.Path]; ok {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // the rest is new to the next scan
		}
		k.add(f)
	}
	k.reopen(k.dropRemoved())
	k.whole = true
	return nil
}

func (k *KeyStore) add(f KeyFile) {
	if err := k.open(&f); err != nil {
		k.log.Warn("key file unusable", "err", err)
	} else {
		k.warnOfReaders([]KeyFile{f})
		k.log.Info("key added", "address", f.Address, "file", f.Path)
	}
	k.seen[f.Path] = f
}

// warnOfReaders warns, once for all files, if other users can read secrets.
func (k *KeyStore) warnOfReaders(files []KeyFile) {
	example, loose := "", 0
	for _, f := range files {
		if info, err := os.Stat(f.Path); err == nil && info.Mode().Perm()&0o077 != 0 {
			example = f.Path
			loose++
		}
	}
	if loose > 0 {
		k.log.Warn(
			"secrets readable by other users; run chmod go=",
			"file", example, "files", loose)
	}
}

// list finds the key files, except a password file among them.
func (k *KeyStore) list() ([]KeyFile, error) {
	files, err := list(k.dir)
	if err != nil {
		return nil, err
	}
	password, err := os.Stat(k.passwordFile)
	if err != nil {
		return files, nil // already read
	}
	return slices.DeleteFunc(files, func(f KeyFile) bool {
		info, err := os.Stat(f.Path)
		return err == nil && os.SameFile(info, password)
	}), nil
}
