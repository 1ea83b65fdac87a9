//go:build !pkcs11

package node

import (
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
)

func openPKCS11(config.PKCS11) (sign.Digester, error) {
	return nil, notBuilt("pkcs11", "pkcs11")
}
