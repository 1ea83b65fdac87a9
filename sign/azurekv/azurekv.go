// Package azurekv signs with keys in Azure Key Vault or Managed HSM (EC or EC-HSM, curve P-256K).
package azurekv

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// Options locate the vault.
type Options struct {
	VaultURL   string
	Credential azcore.TokenCredential // nil: azidentity.DefaultAzureCredential
	Transport  policy.Transporter     // nil: the default
	AnyHost    bool                   // accepts a vault of another domain, for tests
}

// Digester signs with a vault. Identifiers are the name and the version of a key, NAME/VERSION.
type Digester struct{ client *azkeys.Client }

// Open returns a digester. It connects with the first call.
func Open(o Options) (*Digester, error) {
	if o.Credential == nil {
		found, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("find the credentials of Azure: %w", err)
		}
		o.Credential = found
	}
	client, err := azkeys.NewClient(o.VaultURL, o.Credential, &azkeys.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			// The engine retries, with a backoff for each account.
			Retry:     policy.RetryOptions{MaxRetries: -1},
			Transport: o.Transport,
		},
		DisableChallengeResourceVerification: o.AnyHost,
	})
	if err != nil {
		return nil, fmt.Errorf("open Azure Key Vault: %w", err)
	}
	return &Digester{client}, nil
}

// PublicKey fetches a public key. Errors: txn.ErrKeyMissing, txn.ErrSignerFault,
// txn.ErrUnavailable.
func (d *Digester) PublicKey(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	name, version, err := parts(id)
	if err != nil {
		return nil, err
	}
	reply, err := d.client.GetKey(ctx, name, version, nil)
	if err != nil {
		return nil, failure(err)
	}
	key := reply.Key
	if key == nil || key.Crv == nil || *key.Crv != azkeys.CurveNameP256K ||
		len(key.X) != 32 || len(key.Y) != 32 {
		return nil, fmt.Errorf("%w: its key is not of the curve P-256K", txn.ErrSignerFault)
	}
	point := append([]byte{4}, key.X...)
	public, err := crypto.UnmarshalPubkey(append(point, key.Y...))
	if err != nil {
		return nil, fmt.Errorf("%w: its public key is not on the curve", txn.ErrSignerFault)
	}
	return public, nil
}

// SignDigest signs a digest. Errors: as for PublicKey.
func (d *Digester) SignDigest(ctx context.Context, id string,
	digest [32]byte) (sign.Signature, error) {
	name, version, err := parts(id)
	if err != nil {
		return sign.Signature{}, err
	}
	algorithm := azkeys.SignatureAlgorithmES256K
	reply, err := d.client.Sign(ctx, name, version, azkeys.SignParameters{
		Algorithm: &algorithm,
		Value:     digest[:],
	}, nil)
	if err != nil {
		return sign.Signature{}, failure(err)
	}
	signature, err := sign.ParseRaw(reply.Result)
	if err != nil {
		return sign.Signature{}, fmt.Errorf("%w: %w", txn.ErrSignerFault, err)
	}
	return signature, nil
}

// parts splits an identifier. Without a version a rotation in the vault would change the key.
func parts(id string) (name, version string, err error) {
	name, version, ok := strings.Cut(id, "/")
	if !ok || name == "" || version == "" {
		return "", "", fmt.Errorf("%w: the key identifier is not NAME/VERSION",
			txn.ErrUnavailable)
	}
	return name, version, nil
}

// maxMessage bounds how much of an error's text gets into a log.
const maxMessage = 200

// failure classifies an error. The text of the SDK has whole replies, also those of the service
// that issues access tokens; the code is enough.
func failure(err error) error {
	var reply *azcore.ResponseError
	var login *azidentity.AuthenticationFailedError
	switch {
	case errors.As(err, &reply):
		if reply.StatusCode == http.StatusNotFound && reply.ErrorCode == "KeyNotFound" {
			return fmt.Errorf("%w in Azure Key Vault", txn.ErrKeyMissing)
		}
		return fmt.Errorf("%w: Azure Key Vault: HTTP status %d, %.*q", txn.ErrUnavailable,
			reply.StatusCode, maxMessage, reply.ErrorCode)
	case errors.As(err, &login) && login.RawResponse != nil:
		return fmt.Errorf("%w: Azure Key Vault: no access token: HTTP status %d",
			txn.ErrUnavailable, login.RawResponse.StatusCode)
	}
	root := err
	for inner := errors.Unwrap(root); inner != nil; inner = errors.Unwrap(root) {
		root = inner
	}
	return fmt.Errorf("%w: Azure Key Vault: %.*q", txn.ErrUnavailable, maxMessage, root.Error())
}
