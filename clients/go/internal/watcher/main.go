// The watcher prints the messages of a watch until it is killed. End-to-end tests disturb its
// connection and compare its output with the ledger.
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
	client, err := fencepost.Connect(os.Args[1], fencepost.Options{})
	if err != nil {
		log.Fatal(err)
	}
	request := &pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: os.Args[2]}}
	for m, err := range client.Watch(context.Background(), request) {
		if err != nil {
			log.Fatal(err)
		}
		if e := m.GetEvent(); e != nil {
			fmt.Println("event", e.GetTxId(), e.GetSeq())
		} else {
			fmt.Println("other")
		}
	}
}
