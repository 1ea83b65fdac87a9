//go:build pkcs11

package node

import (
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/pkcs11"
)

func openPKCS11(c config.PKCS11) (sign.Digester, error) {
	return pkcs11.Open(pkcs11.Options(c))
}
