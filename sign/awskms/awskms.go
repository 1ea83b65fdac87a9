// Package awskms signs with keys in AWS KMS (ECC_SECG_P256K1, SIGN_VERIFY).
package awskms

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/txn"
)

// Options locate the keys.
type Options struct {
	Region   string
	Endpoint string // in place of the region's; empty: none
}

// Digester signs with KMS. Identifiers are key ids, ARNs or aliases ("alias/name").
type Digester struct{ client *kms.Client }

// Open returns a digester with the credentials that the AWS command line would find: environment,
// shared files, web identity, container or instance. It connects with the first call.
func Open(ctx context.Context, o Options) (*Digester, error) {
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.Region),
		// The engine retries, with a backoff for each account.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }))
	if err != nil {
		return nil, fmt.Errorf("load the configuration of AWS: %w", err)
	}
	client := kms.NewFromConfig(loaded, func(k *kms.Options) {
		if o.Endpoint != "" {
			k.BaseEndpoint = aws.String(o.Endpoint)
		}
		k.HTTPClient = keptBodies{k.HTTPClient}
	})
	return &Digester{client}, nil
}

// keptBodies sends bodies that the SDK cannot close. It closes them when a reply arrives, even
// while the transport has yet to find their end: the transport then drops the connection, and the
// reply with it.
type keptBodies struct{ kms.HTTPClient }

// Do sends a request.
func (c keptBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(content))
	}
	return c.HTTPClient.Do(r)
}

// PublicKey fetches a public key. Errors: txn.ErrKeyMissing, txn.ErrSignerFault,
// txn.ErrUnavailable.
func (d *Digester) PublicKey(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	reply, err := d.client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: aws.String(id)})
	if err != nil {
		return nil, failure(err)
	}
	if reply.KeyUsage != types.KeyUsageTypeSignVerify {
		return nil, fmt.Errorf("%w: its usage is %s, not SIGN_VERIFY", txn.ErrSignerFault,
			reply.KeyUsage)
	}
	key, err := sign.ParsePublicKey(reply.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", txn.ErrSignerFault, err)
	}
	return key, nil
}

// SignDigest signs a digest. Errors: as for PublicKey.
func (d *Digester) SignDigest(ctx context.Context, id string,
	digest [32]byte) (sign.Signature, error) {
	reply, err := d.client.Sign(ctx, &kms.SignInput{
		KeyId:            aws.String(id),
		Message:          digest[:],
		MessageType:      types.MessageTypeDigest,
		SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256, // of the length only
	})
	if err != nil {
		return sign.Signature{}, failure(err)
	}
	signature, err := sign.ParseDER(reply.Signature)
	if err != nil {
		return sign.Signature{}, fmt.Errorf("%w: %w", txn.ErrSignerFault, err)
	}
	return signature, nil
}

// maxMessage bounds how much of an error's text gets into a log.
const maxMessage = 200

// failure classifies an error. The text of the SDK names endpoints and request ids; the code is
// enough.
func failure(err error) error {
	var missing *types.NotFoundException
	if errors.As(err, &missing) {
		return fmt.Errorf("%w in AWS KMS", txn.ErrKeyMissing)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return fmt.Errorf("%w: AWS KMS: %.*q", txn.ErrUnavailable, maxMessage, api.ErrorCode())
	}
	root := err
	for inner := errors.Unwrap(root); inner != nil; inner = errors.Unwrap(root) {
		root = inner
	}
	return fmt.Errorf("%w: AWS KMS: %.*q", txn.ErrUnavailable, maxMessage, root.Error())
}
