// Package signers tests the holders of keys with real signers.
package signers

import (
	"os"
	"testing"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/awskms"
	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/sign/ethrpc"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/sign/signtest/peers"
)

func TestClef(t *testing.T) {
	t.Parallel()
	p, err := peers.Clef(t.Context(), t.TempDir(), 31337, signtest.Key("account"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	signtest.RunReal(t, signtest.Subject{
		Open: func(t *testing.T, _ *signtest.Script) sign.Holder {
			h, err := ethrpc.Open(endpoint.Endpoint{URL: p.URL}, ethrpc.Clef,
				signtest.Keys(t, false))
			if err != nil {
				t.Fatal(err)
			}
			return h
		},
	})
}

// It sets variables of the process, so it does not run in parallel.
func TestLocalKMS(t *testing.T) {
	setCredentials(t)
	p, keys, err := peers.LocalKMS(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	signtest.RunReal(t, signtest.Subject{
		Digests: true,
		Account: keys[0].Address,
		Open: func(t *testing.T, _ *signtest.Script) sign.Holder {
			return kms(t, p.URL, listOf(t, keys[0]))
		},
	})
}

func setCredentials(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
}

func kms(t *testing.T, url string, keys *sign.KeyList) sign.Holder {
	t.Helper()
	d, err := awskms.Open(t.Context(), awskms.Options{Region: "eu-west-2", Endpoint: url})
	if err != nil {
		t.Fatal(err)
	}
	return sign.NewDigestHolder(d, keys)
}
