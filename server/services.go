package server

import (
	"log/slog"

	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/accesslog"
	"github.com/fencepost/fencepost/server/feed"
)

// services are the services of one ledger.
type services struct {
	txs        *txService
	submitters *submitterService
	status     *statusService
	sinks      *sinkService
	pools      *poolService
	nonces     *nonceService
}

// txService implements TxService.
type txService struct {
	pb.UnimplementedTxServiceServer

	store        Store
	resolver     *resolver
	commands     *commander
	feed         *feed.Feed
	access       *accesslog.Log
	metrics      *metrics
	log          *slog.Logger
	check        func(request proto.Message) error // the rules of the contract
	payloadBytes int                               // the most call data of a transaction
	simulate     Simulate
	simulations  *simulations
}

// statusService implements StatusService.
type statusService struct {
	pb.UnimplementedStatusServiceServer

	store         Store
	node, version string
	chains        func() []ChainStatus
	balances      Balances
	resolver      *resolver
}

// submitterService implements SubmitterService.
type submitterService struct {
	pb.UnimplementedSubmitterServiceServer

	store    Store
	resolver *resolver
	commands *commander
	known    known
	log      *slog.Logger
}
