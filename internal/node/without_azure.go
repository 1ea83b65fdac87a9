//go:build !azure

package node

import (
	"github.com/fencepost/fencepost/internal/config"
	"github.com/fencepost/fencepost/sign"
)

func openAzureKeyVault(config.AzureKeyVault) (sign.Digester, error) {
	return nil, notBuilt("azure_keyvault", "azure")
}
