//go:build pkcs11

package pkcs11

import (
	"errors"
	"os"
	"testing"

	"github.com/miekg/pkcs11"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/sign/signtest/peers"
	"github.com/fencepost/fencepost/txn"
)

// TestSoftHSM sets a variable of the process, so nothing here runs in parallel.
func TestSoftHSM(t *testing.T) {
	t.Setenv("SOFTHSM2_CONF", os.DevNull)
	token, err := peers.SoftHSM(t.TempDir(), signtest.Key("account"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(Options{Module: token.Module, Token: token.Label, PINFile: token.PINFile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	for name, id := range map[string]string{"label": peers.KeyLabel(0), "id": "id:0001"} {
		t.Run(name, func(t *testing.T) {
			signtest.RunReal(t, signtest.Subject{
				Digests: true,
				Open: func(t *testing.T, _ *signtest.Script) sign.Holder {
					return sign.NewDigestHolder(d, signtest.Keys(t, true, id, "label:none"))
				},
			})
		})
	}
	d.options.Token = "another" // as after the token was removed
	d.release(0, pkcs11.Error(pkcs11.CKR_TOKEN_NOT_PRESENT))
	if _, err := d.SignDigest(t.Context(), peers.KeyLabel(0), [32]byte{}); !errors.Is(err,
		txn.ErrUnavailable) {
		t.Errorf("without the token: %v", err)
	}
}
