package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/fencepost/fencepost/store"
)

// exportVersion begins the signed text of a head.
const exportVersion = "fencepost history 1"

// maxExportLine bounds a line of an export: an event with its blocks.
const maxExportLine = 64 << 20

// Head is the last line of an export. Its signature covers all lines before it, and the newest
// checkpoint of the ledger.
type Head struct {
	Type       string           `json:"type"` // head
	Lines      int              `json:"lines"`
	SHA256     string           `json:"sha256"` // hex, of all lines before
	Checkpoint store.Checkpoint `json:"checkpoint"`
	CreatedAt  time.Time        `json:"createdAt"`
	PublicKey  string           `json:"publicKey"` // base64
	Signature  string           `json:"signature"` // base64
}

// signed returns the text that the signature covers.
func (h Head) signed() []byte {
	return fmt.Appendf(nil, "%s\n%d\n%s\n%d.%d %s\n%s\n", exportVersion, h.Lines, h.SHA256,
		h.Checkpoint.Series, h.Checkpoint.No, h.Checkpoint.Head,
		h.CreatedAt.UTC().Format(time.RFC3339))
}

// Export writes the history as lines of JSON, with a signed head at its end.
type Export struct {
	to    *bufio.Writer
	sum   hash.Hash
	lines int
	key   ed25519.PrivateKey
}

// NewExport begins an export that is signed with a key.
func NewExport(to io.Writer, key ed25519.PrivateKey) *Export {
	return &Export{to: bufio.NewWriter(to), sum: sha256.New(), key: key}
}

// Line adds a line.
func (e *Export) Line(content store.ChainLine) error {
	line, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("audit: write a line of the export: %w", err)
	}
	line = append(line, '\n')
	e.sum.Write(line)
	e.lines++
	if _, err = e.to.Write(line); err != nil {
		return fmt.Errorf("audit: write a line of the export: %w", err)
	}
	return nil
}

// Close writes the head, and returns it.
func (e *Export) Close(last store.Checkpoint, at time.Time) (Head, error) {
	h := Head{Type: "head", Lines: e.lines, SHA256: hex.EncodeToString(e.sum.Sum(nil)),
		Checkpoint: last, CreatedAt: at.UTC().Truncate(time.Second)}
	public, ok := e.key.Public().(ed25519.PublicKey)
	if !ok {
		return h, errors.New("audit: the key is not an Ed25519 key")
	}
	h.PublicKey = base64.StdEncoding.EncodeToString(public)
	h.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(e.key, h.signed()))
	line, err := json.Marshal(h)
	if err == nil {
		_, err = e.to.Write(append(line, '\n'))
	}
	if err == nil {
		err = e.to.Flush()
	}
	if err != nil {
		return h, fmt.Errorf("audit: write the head of the export: %w", err)
	}
	return h, nil
}

// VerifyExport checks that an export is complete and unchanged since it was signed with the key.
func VerifyExport(from io.Reader, key ed25519.PublicKey) (Head, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxExportLine)
	sum, n := sha256.New(), 0
	var h Head
	for ended := false; lines.Scan(); n++ {
		if ended {
			return h, errors.New("lines follow the head")
		}
		line := lines.Bytes()
		if ended = bytes.HasPrefix(line, []byte(`{"type":"head"`)); !ended {
			sum.Write(line)
			sum.Write([]byte{'\n'})
			continue
		}
		if err := json.Unmarshal(line, &h); err != nil {
			return h, fmt.Errorf("the head cannot be read: %w", err)
		}
		n--
	}
	signature, err := base64.StdEncoding.DecodeString(h.Signature)
	switch {
	case lines.Err() != nil:
		return h, fmt.Errorf("the export cannot be read: %w", lines.Err())
	case h.Type == "":
		return h, errors.New("the head is missing")
	case err != nil || !ed25519.Verify(key, h.signed(), signature):
		return h, errors.New("the signature is not of this key")
	case h.Lines != n || h.SHA256 != hex.EncodeToString(sum.Sum(nil)):
		return h, errors.New("lines were changed, added or removed")
	}
	return h, nil
}

// ParseSigningKey parses an Ed25519 private key in PEM (PKCS #8).
func ParseSigningKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not a private key in PKCS #8")
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("not an Ed25519 key")
	}
	return private, nil
}

// ParseVerifyingKey parses an Ed25519 public key in PEM (PKIX).
func ParseVerifyingKey(text []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not a public key")
	}
	public, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("not an Ed25519 key")
	}
	return public, nil
}
