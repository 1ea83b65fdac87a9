// Package peers starts real signers with given keys, for tests and for fencepost-dev. The keys are
// in plain files, so it is not for keys of value.
package peers

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/fencepost/fencepost/sign"
)

// startTime is how long a peer may take until it accepts connections.
const startTime = 20 * time.Second

// find returns the path of a program: in PATH, or in .cache/bin of this or a parent folder.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		path := filepath.Join(dir, ".cache", "bin", name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return "", fmt.Errorf("%s is missing; build it with \"make .cache/bin/%s\", or install it",
			name, name)
	}
}

// Peer is a running signer.
type Peer struct {
	URL  string
	stop func()
}

// Stop ends it.
func (p *Peer) Stop() { p.stop() }

// freePort returns a port that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// ready waits until a port accepts connections, or the program ends.
func ready(ctx context.Context, port string, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+port)
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return errors.New("it accepts no connections")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var (
	oidPublicKey = asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
	oidSecp256k1 = asn1.ObjectIdentifier{1, 3, 132, 0, 10}
)

// sec1 returns a key as ECPrivateKey (RFC 5915).
func sec1(key *ecdsa.PrivateKey) ([]byte, error) {
	point := crypto.FromECDSAPub(&key.PublicKey)
	return asn1.Marshal(struct {
		Version int
		Private []byte
		Curve   asn1.ObjectIdentifier `asn1:"explicit,tag:0"`
		Public  asn1.BitString        `asn1:"explicit,tag:1"`
	}{1, crypto.FromECDSA(key), oidSecp256k1,
		asn1.BitString{Bytes: point, BitLength: 8 * len(point)}})
}

// pkcs8 returns a key as PrivateKeyInfo (RFC 5208).
func pkcs8(key *ecdsa.PrivateKey) ([]byte, error) {
	inner, err := sec1(key)
	if err != nil {
		return nil, err
	}
	type algorithm struct{ Kind, Curve asn1.ObjectIdentifier }
	return asn1.Marshal(struct {
		Version   int
		Algorithm algorithm
		Key       []byte
	}{0, algorithm{oidPublicKey, oidSecp256k1}, inner})
}

// KMSKey is a key of local-kms.
type KMSKey struct {
	ID      string
	Address common.Address
}

// LocalKMS starts local-kms and creates count keys; it cannot import keys of this curve. The keys
// stay in the folder, and the next start returns them again.
func LocalKMS(ctx context.Context, dir string, count int) (*Peer, []KMSKey, error) {
	program, err := find("local-kms")
	if err != nil {
		return nil, nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, nil, err
	}
	return KMS(ctx, dir, count, func(port string) *exec.Cmd {
		command := exec.Command(program)
		command.Env = append(os.Environ(), "PORT="+port, "KMS_DATA_PATH="+data,
			"KMS_SEED_PATH="+os.DevNull)
		return command
	})
}

// KMS starts a program that serves the protocol of AWS KMS on a port, and creates count keys.
func KMS(ctx context.Context, dir string, count int,
	program func(port string) *exec.Cmd) (*Peer, []KMSKey, error) {
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	command := program(port)
	p, err := Run(ctx, command, port)
	if err != nil {
		return nil, nil, err
	}
	keys, err := kmsKeys(ctx, p.URL, filepath.Join(dir, "ids"), count)
	if err != nil {
		p.Stop()
		return nil, nil, fmt.Errorf("create keys in %s: %w", filepath.Base(command.Path), err)
	}
	return p, keys, nil
}

// kmsKeys creates the keys that the file does not have yet.
func kmsKeys(ctx context.Context, url, file string, count int) ([]KMSKey, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ids := strings.Fields(string(text))
	for len(ids) < count {
		var created struct {
			KeyMetadata struct {
				KeyID string `json:"KeyId"`
			}
		}
		if err := kmsCall(ctx, url, "CreateKey", map[string]string{
			"KeySpec": "ECC_SECG_P256K1", "KeyUsage": "SIGN_VERIFY"}, &created); err != nil {
			return nil, err
		}
		ids = append(ids, created.KeyMetadata.KeyID)
	}
	if err := os.WriteFile(file, []byte(strings.Join(ids, "\n")), 0o600); err != nil {
		return nil, err
	}
	keys := make([]KMSKey, count)
	for i := range keys {
		var reply struct{ PublicKey []byte }
		if err := kmsCall(ctx, url, "GetPublicKey", map[string]string{"KeyId": ids[i]},
			&reply); err != nil {
			return nil, err
		}
		public, err := sign.ParsePublicKey(reply.PublicKey)
		if err != nil {
			return nil, err
		}
		keys[i] = KMSKey{ids[i], crypto.PubkeyToAddress(*public)}
	}
	return keys, nil
}

func kmsCall(ctx context.Context, url, operation string, input, output any) error {
	body, err := json.Marshal(input)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	request.Header.Set("X-Amz-Target", "TrentService."+operation)
	// Nothing verifies the signature; moto reads region and service.
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kms/"+
		"aws4_request, SignedHeaders=host, Signature=none")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", operation, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(output)
}

// Run starts a program and waits until it accepts connections on a port of this machine.
func Run(ctx context.Context, command *exec.Cmd, port string) (*Peer, error) {
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		err := command.Wait()
		ended <- err
		close(ended)
	}()
	p := &Peer{URL: "http://127.0.0.1:" + port, stop: func() {
		_ = command.Process.Kill() // it may have ended
		for range ended {
		}
	}}
	if err := ready(ctx, port, ended); err != nil {
		p.Stop()
		return nil, fmt.Errorf("start %s: %w", filepath.Base(command.Path), err)
	}
	return p, nil
}
