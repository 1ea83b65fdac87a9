//go:build aws

package node

import (
	"context"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/awskms"
)

func openAWSKMS(ctx context.Context, c config.AWSKMS) (sign.Digester, error) {
	return awskms.Open(ctx, awskms.Options(c))
}
