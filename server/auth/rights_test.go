package auth

import (
	"testing"

	"google.golang.org/grpc"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// Every RPC of the contract has a requirement, and there are no others.
func TestRequirements_CoverTheContract(t *testing.T) {
	t.Parallel()
	rpcs := 0
	for _, service := range []grpc.ServiceDesc{
		pb.TxService_ServiceDesc, pb.SubmitterService_ServiceDesc, pb.StatusService_ServiceDesc,
		pb.SinkService_ServiceDesc, pb.PoolService_ServiceDesc, pb.NonceService_ServiceDesc,
	} {
		check := func(method string) {
			rpcs++
			full := "/" + service.ServiceName + "/" + method
			if _, has := requirements[full]; !has {
				t.Errorf("no requirement for %s", full)
			}
		}
		for _, m := range service.Methods {
			check(m.MethodName)
		}
		for _, s := range service.Streams {
			check(s.StreamName)
		}
	}
	if len(requirements) != rpcs {
		t.Errorf("there are %d requirements and %d RPCs", len(requirements), rpcs)
	}
}

func TestMayCall_UnknownMethod_IsForNobody(t *testing.T) {
	t.Parallel()
	if Everything().MayCall("/fencepost.v1.TxService/OfTomorrow") == nil {
		t.Error("an RPC without a requirement is for everybody")
	}
}
