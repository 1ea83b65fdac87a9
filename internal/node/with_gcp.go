//go:build gcp

package node

import (
	"context"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/gcpkms"
)

func openGCPKMS(ctx context.Context, c config.GCPKMS) (sign.Digester, error) {
	return gcpkms.Open(ctx, gcpkms.Options{CredentialsFile: c.CredentialsFile})
}
