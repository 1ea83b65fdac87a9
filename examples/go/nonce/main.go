// Sends a transaction with a reserved nonce through a wallet (eth_sendTransaction), and waits until
// it is final: go run ./nonce TARGET SUBMITTER WALLET_URL
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	fencepost "github.com/fencepost/fencepost/clients/go"
)

func main() {
	ctx := context.Background()
	client, err := fencepost.Connect(os.Args[1], fencepost.Options{})
	check(err)
	handle, err := client.WithNonce(ctx, os.Args[2],
		func(ctx context.Context, n fencepost.NonceContext) (fencepost.NonceResult, error) {
			hash, err := send(ctx, os.Args[3], n)
			return fencepost.SentTx(hash), err
		}, fencepost.NonceOptions{})
	check(err)
	nonce, _, err := handle.Wait(ctx)
	check(err)
	fmt.Println(nonce.GetNonce(), nonce.GetState(), nonce.GetTxHashes())
}

// send sends 1 wei to the account itself. An error does not show whether the wallet signed.
func send(ctx context.Context, url string, n fencepost.NonceContext) (string, error) {
	call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1,
		"method": "eth_sendTransaction", "params": []any{map[string]string{
			"from": n.From, "to": n.From, "value": "0x1",
			"nonce": fmt.Sprintf("0x%x", n.Nonce), "chainId": fmt.Sprintf("0x%x", n.ChainID),
		}}})
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(call))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var sent struct {
		Result string
		Error  struct{ Message string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&sent); err != nil {
		return "", err
	}
	if sent.Result == "" {
		return "", fmt.Errorf("wallet: %s", sent.Error.Message)
	}
	return sent.Result, nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
