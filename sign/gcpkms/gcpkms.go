// Package gcpkms signs with keys in Google Cloud KMS (EC_SIGN_SECP256K1_SHA256, which needs the
// protection level HSM).
package gcpkms

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"hash/crc32"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// Options locate the credentials.
type Options struct {
	CredentialsFile string                // empty: those of the environment
	Client          []option.ClientOption // for tests
}

// Digester signs with Cloud KMS. Identifiers are names of key versions:
// projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/V.
type Digester struct{ client *kms.KeyManagementClient }

// Open returns a digester. It connects with the first call.
func Open(ctx context.Context, o Options) (*Digester, error) {
	options := o.Client
	if o.CredentialsFile != "" {
		options = append(options, option.WithAuthCredentialsFile(option.ServiceAccount,
			o.CredentialsFile))
	}
	client, err := kms.NewKeyManagementClient(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open Google Cloud KMS: %w", err)
	}
	// The engine retries, with a backoff for each account.
	client.CallOptions.GetPublicKey = nil
	client.CallOptions.AsymmetricSign = nil
	return &Digester{client}, nil
}

// Close closes the connections.
func (d *Digester) Close() error { return d.client.Close() }

var table = crc32.MakeTable(crc32.Castagnoli)

func checksum(data []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(data, table)))
}

// PublicKey fetches a public key. Errors: txn.ErrKeyMissing, txn.ErrSignerFault,
// txn.ErrUnavailable.
func (d *Digester) PublicKey(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	reply, err := d.client.GetPublicKey(ctx, &kmspb.GetPublicKeyRequest{Name: id})
	if err != nil {
		return nil, failure(err)
	}
	if reply.GetName() != id ||
		reply.GetPemCrc32C().GetValue() != checksum([]byte(reply.GetPem())).GetValue() {
		return nil, errDamaged
	}
	key, err := sign.ParsePublicKey([]byte(reply.GetPem()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", txn.ErrSignerFault, err)
	}
	return key, nil
}

// errDamaged means that a checksum or a name differs. Google recommends to retry.
var errDamaged = fmt.Errorf("%w: Google Cloud KMS: the reply was damaged on its way",
	txn.ErrUnavailable)

// SignDigest signs a digest. Errors: as for PublicKey.
func (d *Digester) SignDigest(ctx context.Context, id string,
	digest [32]byte) (sign.Signature, error) {
	reply, err := d.client.AsymmetricSign(ctx, &kmspb.AsymmetricSignRequest{
		Name:         id,
		Digest:       &kmspb.Digest{Digest: &kmspb.Digest_Sha256{Sha256: digest[:]}},
		DigestCrc32C: checksum(digest[:]),
	})
	if err != nil {
		return sign.Signature{}, failure(err)
	}
	if reply.GetName() != id || !reply.GetVerifiedDigestCrc32C() ||
		reply.GetSignatureCrc32C().GetValue() != checksum(reply.GetSignature()).GetValue() {
		return sign.Signature{}, errDamaged
	}
	signature, err := sign.ParseDER(reply.GetSignature())
	if err != nil {
		return sign.Signature{}, fmt.Errorf("%w: %w", txn.ErrSignerFault, err)
	}
	return signature, nil
}

func failure(err error) error {
	code := status.Code(err)
	if code == codes.NotFound {
		return fmt.Errorf("%w in Google Cloud KMS", txn.ErrKeyMissing)
	}
	return fmt.Errorf("%w: Google Cloud KMS: %s", txn.ErrUnavailable, code)
}
