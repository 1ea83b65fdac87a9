//go:build azure

package node

import (
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/azurekv"
)

func openAzureKeyVault(c config.AzureKeyVault) (sign.Digester, error) {
	return azurekv.Open(azurekv.Options{VaultURL: c.VaultURL})
}
