package sign_test

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"testing"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/signtest"
	"github.com/fencepost/fencepost/txn"
)

func TestMemory_Suite(t *testing.T) {
	t.Parallel()
	signtest.Run(t, signtest.Subject{
		Local: true,
		Open: func(*testing.T, *signtest.Script) sign.Holder {
			return sign.NewMemory(signtest.Key("account"))
		},
	})
}

func TestKeyStore_Suite(t *testing.T) {
	t.Parallel()
	signtest.Run(t, signtest.Subject{
		Local: true,
		Open: func(t *testing.T, _ *signtest.Script) sign.Holder {
			f := newFolder(t)
			f.add(t, signtest.Key("account"))
			return f.open(t)
		},
	})
}

func TestDigestHolder_Suite(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]bool{"DER": false, "raw": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signtest.Run(t, signtest.Subject{
				Digests: true,
				Open: func(t *testing.T, s *signtest.Script) sign.Holder {
					return sign.NewDigestHolder(scripted{s, raw}, signtest.Keys(t, true))
				},
			})
		})
	}
}

// scripted is a digester that behaves as a script.
type scripted struct {
	*signtest.Script
	raw bool
}

func (d scripted) PublicKey(ctx context.Context, id string) (*ecdsa.PublicKey, error) {
	if err := d.fail(ctx, id); err != nil {
		return nil, err
	}
	return sign.ParsePublicKey(d.SPKI())
}

func (d scripted) SignDigest(ctx context.Context, id string,
	digest [32]byte) (s sign.Signature, err error) {
	if err := d.fail(ctx, id); err != nil {
		return s, err
	}
	if d.raw {
		s, err = sign.ParseRaw(d.Raw(digest[:]))
	} else {
		s, err = sign.ParseDER(d.DER(digest[:]))
	}
	if err != nil {
		return s, fmt.Errorf("%w: %w", txn.ErrSignerFault, err)
	}
	return s, nil
}

func (d scripted) fail(ctx context.Context, id string) error {
	switch fault := d.Fault(); {
	case id == "absent", fault == signtest.Missing:
		return txn.ErrKeyMissing
	case fault == signtest.Hangs:
		d.Hang(ctx)
		return ctx.Err()
	case fault != signtest.None:
		return errors.New("scripted fault")
	}
	return nil
}
