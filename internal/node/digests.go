package node

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
)

// openDigests opens a holder of keys that signs digests.
func openDigests(_ context.Context, s config.Signer, _ *sign.KeyList) (sign.Holder, error) {
	return nil, fmt.Errorf("%s is not supported", s.Group())
}
