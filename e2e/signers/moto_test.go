//go:build nightly

package signers

import (
	"os/exec"
	"testing"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/awskms"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/sign/signtest/peers"
)

// motoRegion is the region of keys that were created without one.
const motoRegion = "us-east-1"

// TestMoto is a second opinion on AWS KMS: moto shares no code with local-kms. It sets variables of
// the process.
func TestMoto(t *testing.T) {
	setCredentials(t)
	p, keys, err := peers.KMS(t.Context(), t.TempDir(), 1, func(port string) *exec.Cmd {
		return exec.Command("../../.cache/moto/bin/python", "../../tools/moto/serve.py",
			port)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	signtest.RunReal(t, signtest.Subject{
		Digests: true,
		Account: keys[0].Address,
		Open: func(t *testing.T, _ *signtest.Script) sign.Holder {
			d, err := awskms.Open(t.Context(),
				awskms.Options{Region: motoRegion, Endpoint: p.URL})
			if err != nil {
				t.Fatal(err)
			}
			return sign.NewDigestHolder(d, listOf(t, keys[0]))
		},
	})
}
