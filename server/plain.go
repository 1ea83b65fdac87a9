package server

import (
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
)

// plain tells of a request to create a transaction that it keeps all rules of the contract, as nearly all do, in a thirtieth of the time that the rules take. It
// may be stricter than they are, never laxer: of what is not plain they judge, and what a caller is told is theirs. A test holds it to them.
func plain(r *pb.CreateTxRequest) bool {
	return r.GetPayload() != nil && allKnown(r) && short(r.GetSubmitter()) && short(r.GetRequestId()) && plainPayload(r.GetPayload()) &&
		(r.GetTerms() == nil || plainTerms(r.GetTerms())) && plainLabels(r.GetLabels())
}

func plainPayload(p *pb.Payload) bool {
	return allKnown(p) && (p.GetTo() == "" || isAddress(p.GetTo())) && isAmount(p.GetValue())
}

func plainTerms(t *pb.Terms) bool {
	_, named := pb.TxSpeed_name[int32(t.GetSpeed())]
	return named && allKnown(t) && isDigits(t.GetMaxFee()) && (t.GetNotAfter() == nil || allKnown(t.GetNotAfter()))
}

func plainLabels(labels map[string]string) bool {
	if len(labels) > 16 {
		return false
	}
	for key, value := range labels {
		if !isLabelKey(key) || value != "" && !short(value) {
			return false
		}
	}
	return true
}

// allKnown tells that a message holds no field of its own that this server does not know.
func allKnown(m proto.Message) bool { return len(m.ProtoReflect().GetUnknown()) == 0 }

// short tells of a text that it has 1 to 128 bytes, and so no more characters, and that none of them is a control character.
func short(text string) bool {
	return text != "" && len(text) <= 128 && strings.IndexFunc(text, func(c rune) bool { return c < ' ' || c == '\x7f' }) < 0
}

func isAddress(text string) bool {
	return len(text) == 42 && text[:2] == "0x" && strings.IndexFunc(text[2:], func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F')
	}) < 0
}

// isAmount allows no zeros in front.
func isAmount(text string) bool { return isDigits(text) && (len(text) <= 1 || text[0] != '0') }

func isDigits(text string) bool {
	return len(text) <= 78 && strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' }) < 0
}

func isLabelKey(text string) bool {
	return text != "" && len(text) <= 63 && 'a' <= text[0] && text[0] <= 'z' && strings.IndexFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != '/'
	}) < 0
}
