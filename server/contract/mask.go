package contract

import (
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// MaskRemedy ends the errors about an update mask.
const MaskRemedy = "name on_failure, max_fee, or both (in JSON: onFailure,maxFee)"

// withoutUnmasked returns an update without the policies that its mask does not name. They are not
// validated, since clients may send back everything that they have read.
func withoutUnmasked(request proto.Message) proto.Message {
	r, ok := request.(*pb.UpdateSubmitterRequest)
	if !ok {
		return request
	}
	r = proto.CloneOf(r)
	if named := r.GetUpdateMask().GetPaths(); len(named) > 0 {
		if !slices.Contains(named, "on_failure") {
			r.OnFailure = pb.FailurePolicy_FAILURE_POLICY_UNSPECIFIED
		}
		if !slices.Contains(named, "max_fee") {
			r.MaxFee = ""
		}
	}
	return r
}
