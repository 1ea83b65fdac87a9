// Package rpc classifies the gRPC methods that a node serves, by their full names, such as
// "/fencepost.v1.TxService/GetTx".
package rpc

import (
	"strings"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// IsHealth reports whether a method belongs to the health service, which needs no credentials:
// load balancers have none.
func IsHealth(full string) bool { return strings.HasPrefix(full, "/grpc.health.v1.") }

// IsFencepost reports whether a method belongs to the contract. Health and reflection do not.
func IsFencepost(full string) bool { return strings.HasPrefix(full, "/fencepost.v1.") }

// IsEndless reports whether the response is a stream that may stay open forever.
func IsEndless(full string) bool {
	return full == pb.TxService_WatchTx_FullMethodName ||
		full == healthpb.Health_Watch_FullMethodName
}

// AwaitsOwner reports whether a call waits until the owner of the submitter has decided.
func AwaitsOwner(full string) bool {
	switch full {
	case pb.TxService_SpeedUpTx_FullMethodName,
		pb.SubmitterService_UpdateSubmitter_FullMethodName,
		pb.SubmitterService_PauseSubmitter_FullMethodName,
		pb.SubmitterService_ResumeSubmitter_FullMethodName,
		pb.SubmitterService_ProtectSubmitter_FullMethodName,
		pb.SubmitterService_ExitProtect_FullMethodName,
		pb.SubmitterService_ResolveStuck_FullMethodName,
		pb.NonceService_AllocateNonce_FullMethodName,
		pb.NonceService_RecordNonceHash_FullMethodName,
		pb.NonceService_ReleaseNonce_FullMethodName,
		pb.NonceService_QuarantineNonce_FullMethodName,
		pb.NonceService_ExtendReservation_FullMethodName,
		pb.NonceService_SubmitSigned_FullMethodName,
		pb.NonceService_ResolveNonce_FullMethodName:
		return true
	}
	return false
}

// IsRead reports whether a call returns data and has no effect.
func IsRead(full string) bool {
	switch full {
	case pb.TxService_SimulateTx_FullMethodName,
		pb.TxService_GetTx_FullMethodName,
		pb.TxService_ListTxs_FullMethodName,
		pb.SubmitterService_GetSubmitter_FullMethodName,
		pb.SubmitterService_ListSubmitters_FullMethodName,
		pb.SubmitterService_ListCommands_FullMethodName,
		pb.StatusService_GetStatus_FullMethodName,
		pb.StatusService_ListNodes_FullMethodName,
		pb.StatusService_ListChains_FullMethodName,
		pb.StatusService_ListBalances_FullMethodName,
		pb.StatusService_ListCosts_FullMethodName,
		pb.PoolService_ListPools_FullMethodName,
		pb.PoolService_GetPool_FullMethodName,
		pb.SinkService_ListSinks_FullMethodName,
		pb.SinkService_ListUndelivered_FullMethodName,
		pb.NonceService_GetNonce_FullMethodName,
		pb.NonceService_ListNonces_FullMethodName:
		return true
	}
	return false
}

// Name returns a method without its service.
func Name(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }
