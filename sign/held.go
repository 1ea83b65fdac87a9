package sign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/txn"
)

const (
	// recheckPause is how long a key is used without a look at its file.
	recheckPause = time.Second
	// goneGrace is how long the key of a removed file is unavailable and not yet missing, which is
	// final: the file may be on its way back.
	goneGrace = 5 * time.Second
)

// heldKey is the key of a file.
type heldKey struct {
	secret  *secret
	file    KeyFile
	checked atomic.Int64 // when the file was last seen unchanged, as UnixNano
}

// current reports whether the file of a key is as it was when it was read. A hanging file system
// delays only those who wait for it.
func (k *KeyStore) current(ctx context.Context, key *heldKey) (bool, error) {
	if k.clock.Now().UnixNano()-key.checked.Load() < int64(recheckPause) {
		return true, nil
	}
	select {
	case <-k.look:
	case <-ctx.Done():
		return false, fmt.Errorf("%w: %w", txn.ErrUnavailable, context.Cause(ctx))
	}
	type outcome struct {
		same bool
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { k.look <- struct{}{} }()
		info, err := os.Stat(key.file.Path)
		switch {
		case err == nil:
			done <- outcome{stamp{info.Size(), info.ModTime()} == key.file.stamp, nil}
		case errors.Is(err, fs.ErrNotExist):
			done <- outcome{}
		default:
			done <- outcome{err: fmt.Errorf("%w: its key file cannot be read", txn.ErrUnavailable)}
		}
	}()
	select {
	case o := <-done:
		if o.same {
			key.checked.Store(k.clock.Now().UnixNano())
		}
		return o.same, o.err
	case <-ctx.Done():
		return false, fmt.Errorf("%w: %w", txn.ErrUnavailable, context.Cause(ctx))
	}
}

// hold makes the key of a file available, in place of an earlier one of its account.
func (k *KeyStore) hold(f KeyFile, s *secret) {
	key := &heldKey{secret: s, file: f}
	key.checked.Store(k.clock.Now().UnixNano())
	k.mu.Lock()
	old := k.keys[f.Address]
	k.keys[f.Address] = key
	k.mu.Unlock()
	if old != nil {
		old.secret.forget()
	}
}

// reopen opens another file of each account, if there is one. The caller holds the turn.
func (k *KeyStore) reopen(accounts []txn.Address) {
	for _, a := range accounts {
		for _, f := range k.seen {
			if f.Address == a && f.Broken == nil {
				k.add(f)
				break
			}
		}
	}
}

// dropRemoved forgets the keys whose files were removed or replaced, and returns their accounts.
// The caller holds the turn.
func (k *KeyStore) dropRemoved() (dropped []txn.Address) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for a, key := range k.keys {
		if f, there := k.seen[key.file.Path]; there && f.stamp == key.file.stamp {
			continue
		}
		delete(k.keys, a)
		k.gone[a] = k.clock.Now()
		key.secret.forget()
		k.log.Info("key removed", "address", a, "file", key.file.Path)
		dropped = append(dropped, a)
	}
	return dropped
}

// Close wipes all keys.
func (k *KeyStore) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.keys {
		key.secret.forget()
	}
	clear(k.keys)
	return nil
}
