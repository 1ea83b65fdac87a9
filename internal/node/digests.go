package node

import (
	"context"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/internal/remedy"
	"github.com/fencepost/fencepost/sign"
)

// openDigests opens a holder of keys that signs digests.
func openDigests(ctx context.Context, s config.Signer, keys *sign.KeyList) (sign.Holder, error) {
	var d sign.Digester
	var err error
	switch {
	case s.AWSKMS != nil:
		d, err = openAWSKMS(ctx, *s.AWSKMS)
	case s.GCPKMS != nil:
		d, err = openGCPKMS(ctx, *s.GCPKMS)
	case s.AzureKeyVault != nil:
		d, err = openAzureKeyVault(*s.AzureKeyVault)
	case s.PKCS11 != nil:
		d, err = openPKCS11(*s.PKCS11)
	}
	if err != nil {
		return nil, err
	}
	return sign.NewDigestHolder(d, keys), nil
}

// notBuilt is the error of a signer whose code is behind a build tag.
func notBuilt(group, tag string) error {
	return remedy.Errorf("build it with: go build -tags "+tag+" ./cmd/fencepost",
		"this program is built without %s", group)
}
