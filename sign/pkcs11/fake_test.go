//go:build pkcs11

package pkcs11

import (
	"context"
	"encoding/asn1"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/miekg/pkcs11"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/txn"
)

// A module in process, because SoftHSM cannot be made to misbehave.
func TestSuite(t *testing.T) {
	signtest.Run(t, signtest.Subject{
		Digests: true,
		Open: func(t *testing.T, s *signtest.Script) sign.Holder {
			d := openFake(t, &fake{script: s})
			return sign.NewDigestHolder(d, signtest.Keys(t, true, "label:account",
				"label:absent"))
		},
	})
}

// A refused PIN is not tried again: tokens lock after a few attempts.
func TestLogin_WrongPIN_TriedOnce(t *testing.T) {
	f := &fake{script: signtest.NewScript(t), wrongPIN: true}
	d := openFake(t, f)
	for range 5 {
		_, err := d.SignDigest(t.Context(), "label:account", [32]byte{})
		if !errors.Is(err, txn.ErrUnavailable) {
			t.Fatalf("with a wrong PIN: %v", err)
		}
	}
	if f.logins != 1 {
		t.Errorf("%d logins with a wrong PIN", f.logins)
	}
}

// A module that cannot reach its device does not stop the node, and is used once it can.
func TestOpen_DeviceAway_UsedLater(t *testing.T) {
	d := openFake(t, &fake{script: signtest.NewScript(t), outages: 2})
	for range 2 {
		_, err := d.SignDigest(t.Context(), "label:account", [32]byte{1})
		if !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("while it is away: %v", err)
		}
	}
	if _, err := d.SignDigest(t.Context(), "label:account", [32]byte{1}); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func openFake(t *testing.T, f *fake) *Digester {
	t.Helper()
	pin := filepath.Join(t.TempDir(), "pin")
	if err := os.WriteFile(pin, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.sessions = map[pkcs11.SessionHandle][]pkcs11.ObjectHandle{}
	d, err := open(f, Options{Token: "token", PINFile: pin})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fake is a module that behaves as a script. Object 1 is a key of any class.
type fake struct {
	script   *signtest.Script
	wrongPIN bool
	outages  int // initializations that fail

	mu       sync.Mutex
	logins   int
	last     pkcs11.SessionHandle
	sessions map[pkcs11.SessionHandle][]pkcs11.ObjectHandle // objects that each has found
}

func (f *fake) fail() error {
	switch f.script.Fault() {
	case signtest.Hangs:
		f.script.Hang(context.Background())
	case signtest.Throttled:
		return pkcs11.Error(pkcs11.CKR_DEVICE_MEMORY)
	case signtest.Reset:
		return pkcs11.Error(pkcs11.CKR_DEVICE_REMOVED)
	case signtest.Broken:
		return pkcs11.Error(pkcs11.CKR_DEVICE_ERROR)
	case signtest.Denied:
		return pkcs11.Error(pkcs11.CKR_KEY_FUNCTION_NOT_PERMITTED)
	}
	return nil
}

func (f *fake) Initialize(...pkcs11.InitializeOption) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outages == 0 {
		return nil
	}
	f.outages--
	return pkcs11.Error(pkcs11.CKR_DEVICE_ERROR)
}

func (f *fake) Finalize() error                  { return nil }
func (f *fake) GetSlotList(bool) ([]uint, error) { return []uint{3}, nil }

func (f *fake) GetTokenInfo(uint) (pkcs11.TokenInfo, error) {
	return pkcs11.TokenInfo{Label: "token"}, nil
}

func (f *fake) OpenSession(uint, uint) (pkcs11.SessionHandle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.sessions[f.last] = nil
	return f.last, nil
}

func (f *fake) CloseSession(s pkcs11.SessionHandle) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sessions, s)
	return nil
}

func (f *fake) GetSessionInfo(pkcs11.SessionHandle) (pkcs11.SessionInfo, error) {
	return pkcs11.SessionInfo{State: pkcs11.CKS_RO_USER_FUNCTIONS}, nil
}

func (f *fake) Login(pkcs11.SessionHandle, uint, string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logins++
	if f.wrongPIN {
		return pkcs11.Error(pkcs11.CKR_PIN_INCORRECT)
	}
	return nil
}

func (f *fake) FindObjectsInit(s pkcs11.SessionHandle, by []*pkcs11.Attribute) error {
	if err := f.fail(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[s] = nil
	for _, a := range by {
		if a.Type == pkcs11.CKA_LABEL && string(a.Value) == "account" &&
			f.script.Fault() != signtest.Missing {
			f.sessions[s] = []pkcs11.ObjectHandle{1}
		}
	}
	return nil
}

func (f *fake) FindObjects(s pkcs11.SessionHandle, _ int) ([]pkcs11.ObjectHandle, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[s], false, nil
}

func (f *fake) FindObjectsFinal(pkcs11.SessionHandle) error { return nil }

func (f *fake) GetAttributeValue(pkcs11.SessionHandle, pkcs11.ObjectHandle,
	[]*pkcs11.Attribute) ([]*pkcs11.Attribute, error) {
	point, err := asn1.Marshal(crypto.FromECDSAPub(f.script.Public()))
	return []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, secp256k1),
		pkcs11.NewAttribute(pkcs11.CKA_EC_POINT, point),
	}, err
}

func (f *fake) SignInit(pkcs11.SessionHandle, []*pkcs11.Mechanism, pkcs11.ObjectHandle) error {
	return f.fail()
}

func (f *fake) Sign(_ pkcs11.SessionHandle, digest []byte) ([]byte, error) {
	return f.script.Raw(digest), nil
}
