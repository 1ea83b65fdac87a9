//go:build !gcp

package node

import (
	"context"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
)

func openGCPKMS(context.Context, config.GCPKMS) (sign.Digester, error) {
	return nil, notBuilt("gcp_kms", "gcp")
}
