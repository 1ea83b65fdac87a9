// Creates a transaction and prints its outcome: go run ./wait TARGET SUBMITTER REQUEST_ID
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	fencepost "github.com/fencepost/fencepost/clients/go"
	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

func main() {
	target := os.Args[1]
	submitter := os.Args[2]
	requestID := os.Args[3]
	client, err := fencepost.Connect(target, fencepost.Options{})
	if err != nil {
		log.Fatal(err)
	}
	payload := &pb.Payload{To: "0x00000000000000000000000000000000000000aa", Value: "1"}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	tx, err := client.CreateAndWait(ctx,
		&pb.CreateTxRequest{Submitter: submitter, RequestId: requestID, Payload: payload})
	if err != nil {
		explain(err)
		return
	}
	if tx.GetExecuted() != pb.Executed_EXECUTED_SUCCESS {
		fmt.Println(tx.GetState(), tx.GetReason(), tx.GetLastError(), "may be sent again:",
			tx.GetRetrySafe())
		return
	}
	fmt.Println(tx.GetState(), tx.GetTxHash())
}

func explain(err error) {
	var e *fencepost.Error
	switch {
	case !errors.As(err, &e):
		fmt.Println("not an API error:", err)
	case e.Reason == pb.ErrorReason_ERROR_REASON_INVALID_FIELD:
		fmt.Println("correct the request:", e.Violations)
	case e.Reason == pb.ErrorReason_ERROR_REASON_QUEUE_FULL:
		fmt.Println("retry the call in", e.RetryAfter)
	default:
		fmt.Println(e.Code, e.ReasonName, e.Message)
	}
}
