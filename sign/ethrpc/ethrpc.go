// Package ethrpc is the client of signers that sign Ethereum transactions over JSON-RPC
// (eth_signTransaction): Web3Signer, and clef, which calls it account_signTransaction.
package ethrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/fencepost/fencepost/sign"
	"github.com/fencepost/fencepost/sign/endpoint"
	"github.com/fencepost/fencepost/txn"
)

const (
	maxReply   = 1 << 20 // a transaction of 128 KiB as hex, twice in clef's reply
	maxMessage = 200     // of a signer's message in a log

	idleTimeout = 90 * time.Second
	maxIdle     = 32
)

// Product is the program that signs.
type Product int

// The supported products.
const (
	Web3Signer Product = iota
	Clef
)

// Holder is a holder whose keys are in a JSON-RPC signer. The address is the identifier of a key
// there, and every signature is verified, so only the signer's presence is checked in advance:
// listing its accounts is not a node's business.
type Holder struct {
	endpoint endpoint.Endpoint
	product  Product
	keys     *sign.KeyList
	http     *http.Client
}

// Open returns a holder. It connects with the first call.
func Open(e endpoint.Endpoint, product Product, keys *sign.KeyList) (*Holder, error) {
	if _, err := e.Host(); err != nil {
		return nil, err
	}
	config, err := e.TLS()
	if err != nil {
		return nil, err
	}
	return &Holder{
		endpoint: e,
		product:  product,
		keys:     keys,
		http: &http.Client{
			Transport: &http.Transport{
				TLSClientConfig:     config,
				DialContext:         endpoint.Dial,
				ForceAttemptHTTP2:   true,
				MaxIdleConnsPerHost: maxIdle,
				IdleConnTimeout:     idleTimeout,
			},
			// A redirect would carry the token to another place.
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}, nil
}

// Close closes idle connections.
func (h *Holder) Close() error {
	h.http.CloseIdleConnections()
	return nil
}

// Sign requests a signature. Errors: txn.ErrKeyMissing, txn.ErrSignerFault, txn.ErrUnavailable.
func (h *Holder) Sign(ctx context.Context, u txn.Unsigned) ([]byte, error) {
	if _, err := h.keys.Find(ctx, u.From); err != nil {
		return nil, err
	}
	method := "eth_signTransaction"
	if h.product == Clef {
		method = "account_signTransaction"
	}
	var result json.RawMessage
	if err := h.call(ctx, method, &result, h.arguments(u)); err != nil {
		return nil, err
	}
	return h.raw(result)
}

// raw reads the result: a hex string, or an object with it in raw.
func (h *Holder) raw(result json.RawMessage) ([]byte, error) {
	var text hexutil.Bytes
	var object struct {
		Raw hexutil.Bytes `json:"raw"`
	}
	if json.Unmarshal(result, &text) == nil {
		return text, nil
	}
	if json.Unmarshal(result, &object) == nil && len(object.Raw) > 0 {
		return object.Raw, nil
	}
	return nil, fmt.Errorf("%w: its result is neither a hex string nor an object with raw",
		txn.ErrSignerFault)
}

// Addresses returns the listed accounts.
func (h *Holder) Addresses(context.Context) ([]txn.Address, error) {
	return h.keys.Addresses(), nil
}

// Check tests the presence of the signer. Errors: txn.ErrKeyMissing for an account that is not
// listed, txn.ErrUnavailable.
func (h *Holder) Check(ctx context.Context, account txn.Address) error {
	if _, err := h.keys.Find(ctx, account); err != nil {
		return err
	}
	if h.product == Clef {
		var version json.RawMessage
		return h.call(ctx, "account_version", &version)
	}
	return h.upCheck(ctx)
}

// upCheck requests the path by which Web3Signer reports that it runs.
func (h *Holder) upCheck(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimSuffix(h.endpoint.URL, "/")+"/upcheck", nil)
	if err != nil {
		return errInvalidURL
	}
	content, code, err := h.do(request)
	if err != nil {
		return fmt.Errorf("%w: upcheck: %w", txn.ErrUnavailable, err)
	}
	if code != http.StatusOK || len(content) > maxReply {
		return fmt.Errorf("%w: upcheck: HTTP status %d", txn.ErrUnavailable, code)
	}
	return nil
}

// transaction is a transaction as the products read it.
type transaction struct {
	From                 string         `json:"from"`
	To                   string         `json:"to,omitempty"`
	Gas                  hexutil.Uint64 `json:"gas"`
	GasPrice             string         `json:"gasPrice,omitempty"`
	MaxFeePerGas         string         `json:"maxFeePerGas,omitempty"`
	MaxPriorityFeePerGas string         `json:"maxPriorityFeePerGas,omitempty"`
	Value                string         `json:"value"`
	Nonce                hexutil.Uint64 `json:"nonce"`
	Data                 hexutil.Bytes  `json:"data"`
	Input                hexutil.Bytes  `json:"input,omitempty"`
	ChainID              hexutil.Uint64 `json:"chainId"`
}

func (h *Holder) arguments(u txn.Unsigned) transaction {
	t := transaction{
		From:    u.From.Hex(),
		Gas:     hexutil.Uint64(u.GasLimit),
		Value:   u.Payload.Value.Hex(),
		Nonce:   hexutil.Uint64(u.Nonce),
		Data:    u.Payload.Data,
		ChainID: hexutil.Uint64(u.ChainID),
	}
	if u.Payload.To != nil {
		t.To = u.Payload.To.Hex()
	}
	if u.Fees.Legacy {
		t.GasPrice = u.Fees.Cap.Hex()
	} else {
		t.MaxFeePerGas, t.MaxPriorityFeePerGas = u.Fees.Cap.Hex(), u.Fees.Tip.Hex()
	}
	return t
}

type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// call makes one call, without retries. Errors never contain the URL.
func (h *Holder) call(ctx context.Context, method string, result *json.RawMessage,
	params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": method, "params": params,
	})
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.endpoint.URL,
		bytes.NewReader(body))
	if err != nil {
		return errInvalidURL
	}
	request.Header.Set("Content-Type", "application/json")
	content, code, err := h.do(request)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", txn.ErrUnavailable, method, err)
	}
	return read(method, code, content, result)
}

var errInvalidURL = errors.New("the URL of the signer is invalid")

// do sends a request with the token, and returns at most one byte more than maxReply.
func (h *Holder) do(request *http.Request) (content []byte, code int, err error) {
	token, err := h.endpoint.Token()
	if err != nil {
		return nil, 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := h.http.Do(request)
	if err != nil {
		var failed *url.Error // names the URL
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, 0, err
	}
	defer response.Body.Close()
	content, err = io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	return content, response.StatusCode, err
}

func read(method string, code int, content []byte, result *json.RawMessage) error {
	var r reply
	valid := len(content) <= maxReply && json.Unmarshal(content, &r) == nil
	switch {
	case valid && r.Error != nil:
		message := r.Error.Message
		if len(message) > maxMessage {
			message = message[:maxMessage]
		}
		if unknownAccount(r.Error.Code, message) {
			return fmt.Errorf("%w in the signer: %q", txn.ErrKeyMissing, message)
		}
		return fmt.Errorf("%w: %s: error %d: %q", txn.ErrUnavailable, method, r.Error.Code,
			message)
	case code != http.StatusOK:
		return fmt.Errorf("%w: %s: HTTP status %d", txn.ErrUnavailable, method, code)
	case !valid || len(r.Result) == 0:
		return fmt.Errorf("%w: %s: the reply is not JSON-RPC", txn.ErrUnavailable, method)
	}
	*result = r.Result
	return nil
}

// unknownAccount reports whether an error means that there is no key for the account. Both products
// use -32000 for other errors too: the text decides, and an unknown one is not final.
func unknownAccount(code int, message string) bool {
	return code == -32000 &&
		(message == "No unlocked account matches the Sender" || // Web3Signer, JsonRpcError.java
			message == "unknown account") // clef, accounts.ErrUnknownAccount
}
