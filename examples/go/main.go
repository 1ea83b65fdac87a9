// Creates a transaction and prints its events until it is final:
// go run . TARGET SUBMITTER REQUEST_ID
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	fencepost "github.com/fencepost/fencepost/clients/go"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func main() {
	ctx := context.Background()
	target := os.Args[1]
	submitter := os.Args[2]
	requestID := os.Args[3]
	client, err := fencepost.Connect(target, fencepost.Options{})
	check(err)
	payload := &pb.Payload{To: "0x00000000000000000000000000000000000000aa", Value: "1"}
	created, err := client.Txs.CreateTx(ctx,
		&pb.CreateTxRequest{Submitter: submitter, RequestId: requestID, Payload: payload})
	check(err)
	for m, err := range client.Watch(ctx, fencepost.WatchTx(created.GetTx().GetTxId())) {
		check(err)
		if e := m.GetEvent(); e != nil {
			fmt.Println(e.GetSeq(), e.GetKind(), e.GetState(), e.GetTxHash())
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
