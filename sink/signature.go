package sink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// secretPrefix marks a signing secret of Standard Webhooks; base64 follows.
const secretPrefix = "whsec_"

// Lengths of a signing key, in bytes, as Standard Webhooks require them.
const (
	minKey = 24
	maxKey = 64
)

// signingKeys decodes the secrets in force.
func signingKeys(read func() ([]string, error)) ([][]byte, error) {
	secrets, err := read()
	if err != nil {
		return nil, fmt.Errorf("sink: read the signing secrets: %w", err)
	}
	if len(secrets) == 0 {
		return nil, errors.New("sink: there is no signing secret; add one to the file")
	}
	keys := make([][]byte, len(secrets))
	for i, s := range secrets {
		if keys[i], err = ParseSecret(s); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// ParseSecret decodes a signing secret. Its error does not contain the secret.
func ParseSecret(text string) ([]byte, error) {
	encoded, found := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || len(key) < minKey || len(key) > maxKey {
		return nil, fmt.Errorf("sink: a signing secret is malformed: it must be %q and base64 of "+
			"%d to %d bytes", secretPrefix, minKey, maxKey)
	}
	return key, nil
}

// sign adds the headers of Standard Webhooks: each key signs, so that a receiver may have any one
// of them while keys are rotated.
func sign(h http.Header, m Message, now time.Time, keys [][]byte) {
	at := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", m.ID, at)
		mac.Write(m.Body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.Set("Webhook-Id", m.ID)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
}
