//go:build !aws

package node

import (
	"context"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
)

func openAWSKMS(context.Context, config.AWSKMS) (sign.Digester, error) {
	return nil, notBuilt("aws_kms", "aws")
}
