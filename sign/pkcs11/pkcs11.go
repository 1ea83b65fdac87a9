//go:build pkcs11

package pkcs11

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/miekg/pkcs11"

	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// maxSessions bounds the concurrent operations, and the ones that hang.
const maxSessions = 16

// module is the part of a PKCS #11 module that is used.
type module interface {
	Initialize(...pkcs11.InitializeOption) error
	Finalize() error
	GetSlotList(tokenPresent bool) ([]uint, error)
	GetTokenInfo(slot uint) (pkcs11.TokenInfo, error)
	OpenSession(slot uint, flags uint) (pkcs11.SessionHandle, error)
	CloseSession(pkcs11.SessionHandle) error
	GetSessionInfo(pkcs11.SessionHandle) (pkcs11.SessionInfo, error)
	Login(s pkcs11.SessionHandle, user uint, pin string) error
	FindObjectsInit(pkcs11.SessionHandle, []*pkcs11.Attribute) error
	FindObjects(s pkcs11.SessionHandle, most int) ([]pkcs11.ObjectHandle, bool, error)
	FindObjectsFinal(pkcs11.SessionHandle) error
	GetAttributeValue(pkcs11.SessionHandle, pkcs11.ObjectHandle,
		[]*pkcs11.Attribute) ([]*pkcs11.Attribute, error)
	SignInit(pkcs11.SessionHandle, []*pkcs11.Mechanism, pkcs11.ObjectHandle) error
	Sign(s pkcs11.SessionHandle, message []byte) ([]byte, error)
}

// Digester signs with a token. Identifiers are label:TEXT (CKA_LABEL) or id:HEX (CKA_ID).
//
// Calls of a module take no context, so each runs in its own goroutine. One that hangs keeps one of
// maxSessions slots until it returns; the caller returns in time.
type Digester struct {
	module  module
	options Options
	slots   chan struct{}

	mu       sync.Mutex // held during calls that open sessions
	idle     []pkcs11.SessionHandle
	handles  map[string]pkcs11.ObjectHandle // private keys, by identifier
	refused  string                         // a PIN that the token refused
	loggedIn bool
	ready    bool // the module is initialized
}

// Open loads a module. It need not be able to reach its device, and the token need not be present.
func Open(o Options) (*Digester, error) {
	loaded := pkcs11.New(o.Module)
	if loaded == nil {
		return nil, remedy.Errorf("give the path of the vendor's shared library",
			"the PKCS #11 module %s cannot be loaded", o.Module)
	}
	return open(loaded, o)
}

func open(m module, o Options) (*Digester, error) {
	if _, err := sign.ReadPassword(o.PINFile); err != nil {
		return nil, err
	}
	return &Digester{module: m, options: o, slots: make(chan struct{}, maxSessions),
		handles: map[string]pkcs11.ObjectHandle{}}, nil
}

// Close ends the sessions. The module stays initialized, because others may use it.
func (d *Digester) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.idle {
		_ = d.module.CloseSession(s) // the token ends it too
	}
	d.idle = nil
	return nil
}

// PublicKey reads a public key. Errors: txn.ErrKeyMissing, txn.ErrSignerFault, txn.ErrUnavailable.
func (d *Digester) PublicKey(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	return do(ctx, d, func(s pkcs11.SessionHandle) (*ecdsa.PublicKey, error) {
		object, err := d.find(s, pkcs11.CKO_PUBLIC_KEY, id)
		if err != nil {
			return nil, err
		}
		values, err := d.module.GetAttributeValue(s, object, []*pkcs11.Attribute{
			pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, nil),
			pkcs11.NewAttribute(pkcs11.CKA_EC_POINT, nil),
		})
		if err != nil {
			return nil, err
		}
		return point(values)
	})
}

// SignDigest signs a digest. Errors: as for PublicKey.
func (d *Digester) SignDigest(ctx context.Context, id string,
	digest [32]byte) (sign.Signature, error) {
	return do(ctx, d, func(s pkcs11.SessionHandle) (sign.Signature, error) {
		key, err := d.key(s, id)
		if err != nil {
			return sign.Signature{}, err
		}
		mechanism := []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_ECDSA, nil)}
		if err := d.module.SignInit(s, mechanism, key); err != nil {
			return sign.Signature{}, err
		}
		raw, err := d.module.Sign(s, digest[:])
		if err != nil {
			return sign.Signature{}, err
		}
		signature, err := sign.ParseRaw(raw)
		if err != nil {
			return sign.Signature{}, fmt.Errorf("%w: %w", txn.ErrSignerFault, err)
		}
		return signature, nil
	})
}

var secp256k1 = []byte{0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x0a} // OID 1.3.132.0.10

// point reads the attributes of a public key. The point is an OCTET STRING of DER, or bare in some
// modules.
func point(values []*pkcs11.Attribute) (*ecdsa.PublicKey, error) {
	wrong := fmt.Errorf("%w: its public key is not of secp256k1", txn.ErrSignerFault)
	if len(values) != 2 || !bytes.Equal(values[0].Value, secp256k1) {
		return nil, wrong
	}
	raw := values[1].Value
	var inner []byte
	if rest, err := asn1.Unmarshal(raw, &inner); err == nil && len(rest) == 0 {
		raw = inner
	}
	key, err := crypto.UnmarshalPubkey(raw)
	if err != nil {
		return nil, wrong
	}
	return key, nil
}

// key returns the handle of a private key.
func (d *Digester) key(s pkcs11.SessionHandle, id string) (pkcs11.ObjectHandle, error) {
	d.mu.Lock()
	handle, known := d.handles[id]
	d.mu.Unlock()
	if known {
		return handle, nil
	}
	handle, err := d.find(s, pkcs11.CKO_PRIVATE_KEY, id)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	d.handles[id] = handle
	d.mu.Unlock()
	return handle, nil
}

// find looks one key up. That there is none is certain only if the session is logged in: private
// keys are invisible otherwise.
func (d *Digester) find(s pkcs11.SessionHandle, class uint,
	id string) (pkcs11.ObjectHandle, error) {
	by, err := attribute(id)
	if err != nil {
		return 0, err
	}
	err = d.module.FindObjectsInit(s, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, class),
		pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, pkcs11.CKK_EC),
		by,
	})
	if err != nil {
		return 0, err
	}
	found, _, err := d.module.FindObjects(s, 2)
	if err := errors.Join(err, d.module.FindObjectsFinal(s)); err != nil {
		return 0, err
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		info, err := d.module.GetSessionInfo(s)
		if err != nil {
			return 0, err
		}
		if info.State != pkcs11.CKS_RO_USER_FUNCTIONS &&
			info.State != pkcs11.CKS_RW_USER_FUNCTIONS {
			return 0, pkcs11.Error(pkcs11.CKR_USER_NOT_LOGGED_IN)
		}
		return 0, fmt.Errorf("%w in the token", txn.ErrKeyMissing)
	}
	return 0, fmt.Errorf("%w: several keys have this identifier", txn.ErrUnavailable)
}

func attribute(id string) (*pkcs11.Attribute, error) {
	if label, ok := strings.CutPrefix(id, "label:"); ok {
		return pkcs11.NewAttribute(pkcs11.CKA_LABEL, label), nil
	}
	digits, ok := strings.CutPrefix(id, "id:")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("%w: the key identifier is neither label:TEXT nor id:HEX",
			txn.ErrUnavailable)
	}
	return pkcs11.NewAttribute(pkcs11.CKA_ID, raw), nil
}

// do runs fn with a session, and returns when it ends or ctx does.
func do[T any](ctx context.Context, d *Digester,
	fn func(pkcs11.SessionHandle) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("%w: all sessions of the token are in use: %w",
			txn.ErrUnavailable, context.Cause(ctx))
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-d.slots }()
		session, err := d.session()
		if err != nil {
			done <- outcome{none, d.failure(err)}
			return
		}
		value, err := fn(session)
		d.release(session, err)
		done <- outcome{value, d.failure(err)}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, fmt.Errorf("%w: the token: %w", txn.ErrUnavailable, context.Cause(ctx))
	}
}

func is(err error, code uint) bool {
	var e pkcs11.Error
	return errors.As(err, &e) && uint(e) == code
}

// failure classifies an error. Nil stays nil.
func (d *Digester) failure(err error) error {
	var code pkcs11.Error
	switch {
	case err == nil, errors.Is(err, txn.ErrKeyMissing), errors.Is(err, txn.ErrSignerFault),
		errors.Is(err, txn.ErrUnavailable):
		return err
	case errors.As(err, &code):
		return fmt.Errorf("%w: the token: %w", txn.ErrUnavailable, code)
	}
	return fmt.Errorf("%w: the token: %w", txn.ErrUnavailable, err)
}
