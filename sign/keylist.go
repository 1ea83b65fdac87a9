package sign

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/fencepost/fencepost/internal/clock"
	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/txn"
)

const (
	maxKeyList = 4 << 20
	// listInterval is how often the list is read while signatures are requested. A change is in
	// force once two reads of it are equal, because some programs overwrite files in place.
	listInterval = time.Second
)

// KeyListOptions locate a list of keys.
type KeyListOptions struct {
	File  string
	IDs   bool // each key has an identifier
	Clock clock.Clock
	Log   *slog.Logger
}

// KeyList is the list of the keys of a remote signer: a file with one account per line and, if the
// signer needs it, the identifier of its key. The file is read again while a node runs, so keys are
// added, moved to another identifier and removed without a restart.
type KeyList struct {
	options KeyListOptions

	mu      sync.Mutex
	sum     [sha256.Size]byte
	ids     map[txn.Address]string // in force
	checked time.Time
	next    *pendingList  // differs from the one in force
	reading chan struct{} // closed when the read in progress ends; nil: none
}

// pendingList is a changed list that is not yet in force.
type pendingList struct {
	sum   [sha256.Size]byte
	ids   map[txn.Address]string // nil: unreadable
	since time.Time
}

// OpenKeyList reads a list.
func OpenKeyList(o KeyListOptions) (*KeyList, error) {
	ids, sum, err := readKeyList(o.File, o.IDs)
	if err != nil {
		return nil, err
	}
	return &KeyList{options: o, ids: ids, sum: sum, checked: o.Clock.Now()}, nil
}

// Addresses returns the accounts of the list in force, in ascending order.
func (l *KeyList) Addresses() []txn.Address {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sortedAddresses(l.ids)
}

// Find returns the identifier of the key of an account; empty if the signer needs none. Errors:
// txn.ErrKeyMissing, txn.ErrUnavailable while the list changes or is unreadable.
func (l *KeyList) Find(ctx context.Context, a txn.Address) (string, error) {
	if err := l.refresh(ctx); err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id, listed := l.ids[a]
	if l.next != nil {
		later, stays := l.next.ids[a]
		if changes := l.next.ids != nil && (!stays || later != id); changes || !listed {
			return "", fmt.Errorf("%w: the list of its keys is changing or unreadable",
				txn.ErrUnavailable)
		}
	}
	if !listed {
		return "", fmt.Errorf("%w in %s; add the account", txn.ErrKeyMissing, l.options.File)
	}
	return id, nil
}

// refresh reads the file if the last time is long enough ago. A hanging file system delays only
// those who wait for it.
func (l *KeyList) refresh(ctx context.Context) error {
	l.mu.Lock()
	if l.options.Clock.Now().Sub(l.checked) < listInterval {
		l.mu.Unlock()
		return nil
	}
	done := l.reading
	if done == nil {
		done = make(chan struct{})
		l.reading = done
		go l.read(done)
	}
	l.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: reading its key list: %w", txn.ErrUnavailable, context.Cause(ctx))
	}
}

func (l *KeyList) read(done chan<- struct{}) {
	ids, sum, err := readKeyList(l.options.File, l.options.IDs)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(done)
	l.reading = nil
	now := l.options.Clock.Now()
	l.checked = now
	switch {
	case err == nil && sum == l.sum:
		l.next = nil
	case l.next == nil || l.next.sum != sum || (err == nil) != (l.next.ids != nil):
		l.next = &pendingList{sum, ids, now}
		if err != nil {
			l.options.Log.Error("key list unreadable; the previous one stays in force",
				"file", l.options.File, "error", err)
		}
	case err == nil && now.Sub(l.next.since) >= listInterval:
		l.ids, l.sum = ids, sum
		l.next = nil
		l.options.Log.Info("key list reloaded", "file", l.options.File, "keys", len(ids))
	}
}

// readKeyList reads and checks a list. ids is nil if it is unusable.
func readKeyList(file string, withIDs bool) (ids map[txn.Address]string, sum [sha256.Size]byte,
	err error) {
	form := "0xADDRESS"
	if withIDs {
		form += " KEY_ID"
	}
	content, err := readLimited(file, maxKeyList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sum, remedy.Errorf("write one key per line: "+form,
			"key list %s does not exist", file)
	}
	if err != nil {
		return nil, sum, fmt.Errorf("read key list %s: %w", file, err)
	}
	sum = sha256.Sum256(content)
	ids = map[txn.Address]string{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		wrong := func(what string) error {
			return remedy.Errorf("write one key per line: "+form, "line %d of key list %s %s", n,
				file, what)
		}
		if len(words) != len(strings.Fields(form)) {
			return nil, sum, wrong("has not the form " + form)
		}
		a, ok := parseAddress(words[0])
		if !ok {
			return nil, sum, wrong("does not start with an address, or its checksum is wrong")
		}
		if _, twice := ids[a]; twice {
			return nil, sum, wrong("has an account that is already listed")
		}
		ids[a] = strings.Join(words[1:], " ")
	}
	if lines.Err() != nil {
		return nil, sum, fmt.Errorf("key list %s has a line too long", file)
	}
	if len(ids) == 0 { // most likely a file that is being written
		return nil, sum, remedy.Errorf("write one key per line: "+form, "key list %s has no key",
			file)
	}
	return ids, sum, nil
}

// parseAddress reads "0x" and 40 hex digits; mixed case must be the EIP-55 checksum.
func parseAddress(text string) (txn.Address, bool) {
	digits, prefixed := strings.CutPrefix(text, "0x")
	raw, err := hex.DecodeString(digits)
	if !prefixed || err != nil || len(raw) != common.AddressLength {
		return txn.Address{}, false
	}
	a := txn.Address(raw)
	uniform := digits == strings.ToLower(digits) || digits == strings.ToUpper(digits)
	return a, uniform || a.Hex() == text
}
