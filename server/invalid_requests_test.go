package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/feed"
)

const (
	mistyped = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD" // the last digit's case
	tooBig   = "115792089237316195423570985008687907853269984665640564039457584007913129639936"
)

// refusal is an invalid request and its error.
type refusal struct {
	name    string
	method  string
	ask     proto.Message
	code    codes.Code
	reason  string
	field   string // named by BadRequest, if any
	message string // part of the error message
}

// with adds an unknown field to a message.
func with[M proto.Message](m M, number protowire.Number) M {
	raw := protowire.AppendTag(m.ProtoReflect().GetUnknown(), number, protowire.VarintType)
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(raw, 7))
	return m
}

func createBad(change func(*pb.CreateTxRequest)) proto.Message {
	r := &pb.CreateTxRequest{Submitter: "alice", RequestId: "r1", Payload: payload()}
	change(r)
	return r
}

func payloadBad(change func(*pb.Payload)) proto.Message {
	return createBad(func(r *pb.CreateTxRequest) { change(r.Payload) })
}

func registerBad(change func(*pb.RegisterSubmitterRequest)) proto.Message {
	r := &pb.RegisterSubmitterRequest{
		Name:    "bob",
		ChainId: chainID,
		Address: recipient,
		Signer:  "local",
	}
	change(r)
	return r
}

func watchBad(change func(*pb.WatchTxRequest)) proto.Message {
	r := &pb.WatchTxRequest{Target: &pb.WatchTxRequest_All{All: &pb.AllTxs{}}}
	change(r)
	return r
}

const (
	createTx     = "TxService/CreateTx"
	batchCreate  = "TxService/BatchCreateTx"
	simulateTx   = "TxService/SimulateTx"
	getTx        = "TxService/GetTx"
	listTxs      = "TxService/ListTxs"
	cancelTx     = "TxService/CancelTx"
	speedUpTx    = "TxService/SpeedUpTx"
	approveTx    = "TxService/ApproveTx"
	denyTx       = "TxService/DenyTx"
	watchTx      = "TxService/WatchTx"
	register     = "SubmitterService/RegisterSubmitter"
	getSub       = "SubmitterService/GetSubmitter"
	listSubs     = "SubmitterService/ListSubmitters"
	updateSub    = "SubmitterService/UpdateSubmitter"
	pauseSub     = "SubmitterService/PauseSubmitter"
	resumeSub    = "SubmitterService/ResumeSubmitter"
	protectSub   = "SubmitterService/ProtectSubmitter"
	exitProtect  = "SubmitterService/ExitProtect"
	resolveStuck = "SubmitterService/ResolveStuck"
	listCommands = "SubmitterService/ListCommands"
	getStatus    = "StatusService/GetStatus"
	listNodes    = "StatusService/ListNodes"
	listChains   = "StatusService/ListChains"
	listBalances = "StatusService/ListBalances"
	listCosts    = "StatusService/ListCosts"
)

// bad is a refusal because of the content of a field.
func bad(name, method string, ask proto.Message, field, message string) refusal {
	return refusal{name, method, ask, codes.InvalidArgument, "INVALID_FIELD", field, message}
}

func unknown(name, method string, ask proto.Message, field, message string) refusal {
	return refusal{name, method, ask, codes.InvalidArgument, "UNKNOWN_FIELD", field, message}
}

func noSubmitter(method string, ask proto.Message) refusal {
	return refusal{"unknown submitter", method, ask, codes.NotFound, "SUBMITTER_NOT_FOUND", "",
		"register it"}
}

func noTx(name, method string, ask proto.Message) refusal {
	return refusal{name, method, ask, codes.NotFound, "TX_NOT_FOUND", "", "not found"}
}

func payloadRefusals() []refusal {
	p := payloadBad
	return []refusal{
		bad("recipient too short", createTx, p(func(p *pb.Payload) { p.To = "0x12" }), "payload.to",
			"40 hex digits"),
		bad("recipient without 0x", createTx, p(func(p *pb.Payload) { p.To = recipient[2:] }),
			"payload.to", "40 hex digits"),
		bad("recipient mistyped", createTx, p(func(p *pb.Payload) { p.To = mistyped }),
			"payload.to", "EIP-55 checksum"),
		bad("no recipient, no data", createTx, p(func(p *pb.Payload) { p.To = "" }), "payload.to",
			"recipient"),
		bad("amount beyond 256 bits", createTx, p(func(p *pb.Payload) { p.Value = tooBig }),
			"payload.value", "above 2^256-1"),
		bad("amount negative", createTx, p(func(p *pb.Payload) { p.Value = "-1" }), "payload.value",
			"whole number of wei"),
		bad("amount fractional", createTx, p(func(p *pb.Payload) { p.Value = "0.5" }),
			"payload.value", "whole number of wei"),
		bad("amount in hex", createTx, p(func(p *pb.Payload) { p.Value = "0x10" }), "payload.value",
			"whole number of wei"),
		bad("amount with an exponent", createTx, p(func(p *pb.Payload) { p.Value = "1e18" }),
			"payload.value", "whole number of wei"),
		bad("gas beyond 63 bits", createTx, p(func(p *pb.Payload) { p.GasLimit = 1 << 63 }),
			"payload.gas_limit", "at most 9223372036854775807"),
		{"data over the limit", createTx,
			p(func(p *pb.Payload) { p.Data = make([]byte, 126<<10+1) }), codes.InvalidArgument,
			"PAYLOAD_TOO_LARGE", "payload.data", "129025 bytes, above the limit of 129024"},
		unknown("a nonce", createTx, p(func(p *pb.Payload) { with(p, 15) }), "payload.nonce",
			"Fencepost assigns the nonce"),
		unknown("a sender", createTx, p(func(p *pb.Payload) { with(p, 14) }), "payload.from",
			"the sender is the submitter"),
		unknown("unknown field of the payload", createTx, p(func(p *pb.Payload) { with(p, 9) }),
			"payload.9", "Payload has no field 9"),
	}
}

func termsBad(change func(*pb.Terms)) proto.Message {
	return createBad(func(r *pb.CreateTxRequest) { r.Terms = &pb.Terms{}; change(r.Terms) })
}

func termsRefusals() []refusal {
	t, past := termsBad, timestamppb.New(time.Now().Add(-time.Second))
	return []refusal{
		bad("unknown speed", createTx, t(func(t *pb.Terms) { t.Speed = 9 }), "terms.speed",
			"defined enum"),
		bad("cap beyond 256 bits", createTx, t(func(t *pb.Terms) { t.MaxFee = tooBig }),
			"terms.max_fee", "above 2^256-1"),
		bad("cap negative", createTx, t(func(t *pb.Terms) { t.MaxFee = "-1" }), "terms.max_fee",
			"whole number of wei in decimal digits, or empty"),
		bad("cap too long", createTx, t(func(t *pb.Terms) { t.MaxFee = tooBig + "0" }),
			"terms.max_fee", "whole number of wei in decimal digits, or empty"),
		bad("cap of zero", createTx, t(func(t *pb.Terms) { t.MaxFee = "00" }), "terms.max_fee",
			"must be above 0"),
		bad("deadline past", createTx, t(func(t *pb.Terms) { t.NotAfter = past }),
			"terms.not_after",
			"is in the past"),
		bad(
			"deadline past, with cancel_late",
			createTx,
			createBad(
				func(r *pb.CreateTxRequest) {
					r.RequestId = "r9"
					r.Terms = &pb.Terms{NotAfter: past, CancelLate: true}
				}),
			"terms.not_after",
			"is in the past",
		),
		bad("deadline empty", createTx,
			t(func(t *pb.Terms) { t.NotAfter = &timestamppb.Timestamp{} }), "terms.not_after",
			"must be after 1970"),
		bad("deadline in the year 1", createTx,
			t(func(t *pb.Terms) { t.NotAfter = timestamppb.New(time.Time{}) }), "terms.not_after",
			"must be after 1970"),
		bad("deadline within the first microsecond", createTx,
			t(func(t *pb.Terms) { t.NotAfter = &timestamppb.Timestamp{Nanos: 999} }),
			"terms.not_after", "must be after 1970"),
		bad("invalid deadline", createTx,
			t(func(t *pb.Terms) { t.NotAfter = &timestamppb.Timestamp{Seconds: 9e9, Nanos: -1} }),
			"terms.not_after", "years 1 to 9999"),
		bad("deadline out of range", createTx,
			t(func(t *pb.Terms) { t.NotAfter = &timestamppb.Timestamp{Seconds: 1 << 60} }),
			"terms.not_after", "years 1 to 9999"),
		bad("cancel_late alone", createTx, t(func(t *pb.Terms) { t.CancelLate = true }),
			"terms.cancel_late", "set not_after"),
		bad("payload and terms", createTx, createBad(func(r *pb.CreateTxRequest) {
			r.Payload.To, r.Terms = mistyped, &pb.Terms{MaxFee: "0", CancelLate: true}
		}), "payload.to terms.max_fee terms.cancel_late", "must be above 0"),
		unknown("unknown term", createTx, t(func(t *pb.Terms) { with(t, 9) }), "terms.9",
			"Terms has no field 9"),
		{"key reused with terms", createTx, createBad(func(r *pb.CreateTxRequest) {
			r.RequestId, r.Payload.Value = "used", "2"
			r.Terms = &pb.Terms{Speed: pb.TxSpeed_TX_SPEED_FAST}
		}), codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED", "", "different payload or terms"},
		{"key reused with past terms", createTx, createBad(func(r *pb.CreateTxRequest) {
			r.RequestId, r.Payload.Value = "used", "2"
			r.Terms = &pb.Terms{NotAfter: past}
		}), codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED", "", "different payload or terms"},
	}
}

func labelsBad(labels map[string]string) proto.Message {
	return createBad(func(r *pb.CreateTxRequest) { r.Labels = labels })
}

func labelRefusals() []refusal {
	type m = map[string]string
	many := m{}
	for i := range 17 {
		many[fmt.Sprint("k", i)] = ""
	}
	return []refusal{
		bad("label in capitals", createTx, labelsBad(m{"Team": ""}), `labels["Team"]`,
			"starting with a letter"),
		bad("label without a name", createTx, labelsBad(m{"": "a"}), `labels[""]`,
			"starting with a letter"),
		bad("label too long", createTx, labelsBad(m{strings.Repeat("a", 64): ""}), "",
			"starting with a letter"),
		bad("value too long", createTx, labelsBad(m{"a": strings.Repeat("é", 129)}), `labels["a"]`,
			"at most 128 characters"),
		bad("value with a line break", createTx, labelsBad(m{"a": "b\nc"}), `labels["a"]`,
			"U+000A"),
		bad("value with a NUL", createTx, labelsBad(m{"a": "b\x00"}), `labels["a"]`, "U+0000"),
		bad("too many labels", createTx, labelsBad(many), "labels", "at most 16 entries"),
	}
}

func batchRefusals() []refusal {
	many := make([]*pb.CreateTxRequest, 1001)
	for i := range many {
		many[i] = &pb.CreateTxRequest{}
	}
	return []refusal{
		bad("nothing", batchCreate, &pb.BatchCreateTxRequest{}, "requests", "at least 1 item"),
		bad("too many", batchCreate, &pb.BatchCreateTxRequest{Requests: many}, "requests",
			"no more than 1000"),
		unknown("unknown field", batchCreate,
			with(&pb.BatchCreateTxRequest{Requests: many[:1]}, 9), "9", "BatchCreateTxRequest"),
	}
}

func createRefusals() []refusal {
	c := createBad
	return append(
		append(payloadRefusals(), termsRefusals()...),
		bad("no payload", createTx, c(func(r *pb.CreateTxRequest) { r.Payload = nil }), "payload",
			"is missing"),
		bad("no request_id", createTx, c(func(r *pb.CreateTxRequest) { r.RequestId = "" }),
			"request_id", "is missing; set it"),
		bad("request_id too long", createTx,
			c(func(r *pb.CreateTxRequest) { r.RequestId = strings.Repeat("é", 129) }), "request_id",
			"at most 128 characters"),
		bad("request_id with a NUL", createTx,
			c(func(r *pb.CreateTxRequest) { r.RequestId = "a\x00b" }), "request_id", "U+0000"),
		bad("request_id with a line break", createTx,
			c(func(r *pb.CreateTxRequest) { r.RequestId = "a\nb" }), "request_id",
			"U+000A"),
		bad("no submitter", createTx, c(func(r *pb.CreateTxRequest) { r.Submitter = "" }),
			"submitter", "is missing; set it"),
		bad("request_id with a C1 control", createTx,
			c(func(r *pb.CreateTxRequest) { r.RequestId = "a\u0085b" }), "request_id", "U+0085"),
		bad("request_id with a bidirectional override", createTx,
			c(func(r *pb.CreateTxRequest) { r.RequestId = "a\u202eb" }), "request_id", "U+202E"),
		bad("request_id with a zero-width space", createTx,
			c(func(r *pb.CreateTxRequest) { r.RequestId = "a\u200bb" }), "request_id", "U+200B"),
		bad("label with a zero-width joiner", createTx,
			labelsBad(map[string]string{"a": "b\u200d"}),
			`labels["a"]`, "U+200D"),
		bad("submitter with a NUL", createTx,
			c(func(r *pb.CreateTxRequest) { r.Submitter = "a\x00" }), "submitter", "U+0000"),
		bad("account id malformed", createTx,
			c(func(r *pb.CreateTxRequest) { r.Submitter = "eip155:x:0x12" }), "submitter",
			"eip155:<chain id>"),
		bad("account id mistyped", createTx,
			c(func(r *pb.CreateTxRequest) { r.Submitter = "eip155:1:" + mistyped }), "submitter",
			"EIP-55 checksum"),
		noSubmitter(createTx, c(func(r *pb.CreateTxRequest) { r.Submitter = "nobody" })),
		noSubmitter(createTx,
			c(func(r *pb.CreateTxRequest) { r.Submitter = "eip155:1:" + recipient })),
		refusal{"submitter paused", createTx,
			c(func(r *pb.CreateTxRequest) { r.Submitter = "paused" }), codes.FailedPrecondition,
			"SUBMITTER_PAUSED", "", "resume it"},
		refusal{"submitter protected", createTx,
			c(func(r *pb.CreateTxRequest) { r.Submitter = "protected" }), codes.FailedPrecondition,
			"SUBMITTER_PROTECTED", "", "protection 1 (NONCE_USED_ELSEWHERE)"},
		refusal{"key reused", createTx, c(func(r *pb.CreateTxRequest) { r.RequestId = "used" }),
			codes.AlreadyExists, "IDEMPOTENCY_KEY_REUSED", "",
			`request_id "used" of submitter "alice"`},
		unknown("unknown field", createTx, with(createBad(func(*pb.CreateTxRequest) {}), 99),
			"99", "update the server"),
	)
}

func byKey(submitter, request string) *pb.GetTxRequest {
	return &pb.GetTxRequest{
		Key: &pb.GetTxRequest_Request{
			Request: &pb.RequestKey{Submitter: submitter, RequestId: request},
		},
	}
}

func byID(id string) *pb.GetTxRequest {
	return &pb.GetTxRequest{Key: &pb.GetTxRequest_TxId{TxId: id}}
}

func readRefusals(other string) []refusal {
	return []refusal{
		bad("no target", getTx, &pb.GetTxRequest{}, "key", "set tx_id"),
		bad("not a UUID", getTx, byID("17"), "tx_id",
			"valid UUID"),
		noTx("unknown UUID", getTx, byID(other)),
		noTx("never created", getTx, byKey("alice", "never")),
		noSubmitter(getTx, byKey("nobody", "r1")),
		bad("no request_id", getTx, byKey("alice", ""), "request.request_id", "is missing; set it"),
		bad("account id mistyped", getTx, byKey("eip155:1:"+mistyped, "r1"), "request.submitter",
			"EIP-55"),
		bad("unknown view", getTx, &pb.GetTxRequest{Key: byID(other).Key, View: 9},
			"view", "defined enum"),
		unknown("unknown field of the key", getTx,
			&pb.GetTxRequest{Key: &pb.GetTxRequest_Request{Request: with(&pb.RequestKey{}, 5)}},
			"request.5", "RequestKey"),

		bad("page too large", listTxs, &pb.ListTxsRequest{PageSize: 1001}, "page_size",
			"less than or equal to 1000"),
		bad("page negative", listTxs, &pb.ListTxsRequest{PageSize: -1}, "page_size",
			"greater than or equal to 0"),
		bad("unknown state", listTxs, &pb.ListTxsRequest{States: []pb.TxState{99}},
			"states[0]", "defined enum"),
		bad("state unspecified", listTxs, &pb.ListTxsRequest{States: []pb.TxState{0}}, "states[0]",
			"must not be unspecified"),
		bad("malformed token", listTxs, &pb.ListTxsRequest{PageToken: "!"}, "page_token",
			"next_page_token"),
		bad(
			"token of another filter",
			listTxs,
			&pb.ListTxsRequest{
				Submitter: "alice",
				PageToken: pageToken(filterDigest(&pb.ListTxsRequest{}), make([]byte, 16)),
			},
			"page_token",
			"different filter",
		),
		bad("token of another list", listTxs,
			&pb.ListTxsRequest{
				PageToken: pageToken(filterDigest(&pb.ListTxsRequest{}), []byte("bob")),
			},
			"page_token", "next_page_token"),
		noSubmitter(listTxs, &pb.ListTxsRequest{Submitter: "nobody"}),
		bad("unknown view", listTxs, &pb.ListTxsRequest{View: 9}, "view",
			"defined enum"),
		unknown("unknown field", listTxs, with(&pb.ListTxsRequest{}, 50), "50",
			"ListTxsRequest"),
		bad("label without a value", listTxs, &pb.ListTxsRequest{Labels: []string{"a=b", "team"}},
			"labels[1]", `"key=value"`),
		bad("conflicting labels", listTxs, &pb.ListTxsRequest{Labels: []string{"a=b", "a=c"}},
			"labels[1]", "conflicts"),
		bad("labels too many", listTxs,
			&pb.ListTxsRequest{Labels: strings.Split(strings.Repeat("a=b ", 17), " ")[:17]},
			"labels", "no more than 16"),
		bad("label with a NUL", listTxs, &pb.ListTxsRequest{Labels: []string{"a=\x00"}},
			"labels[0]", "U+0000"),
		bad(
			"invalid times",
			listTxs,
			&pb.ListTxsRequest{
				CreatedFrom:   &timestamppb.Timestamp{Seconds: 1 << 60},
				CreatedBefore: &timestamppb.Timestamp{Nanos: -1},
			},
			"created_before created_from",
			"years 1 to 9999",
		),
		bad(
			"token of other labels",
			listTxs,
			&pb.ListTxsRequest{
				Labels: []string{"a=c"},
				PageToken: pageToken(filterDigest(&pb.ListTxsRequest{Labels: []string{"a=b"}}),
					make([]byte, 16)),
			},
			"page_token",
			"different filter",
		),
		bad(
			"token of another time",
			listTxs,
			&pb.ListTxsRequest{
				CreatedFrom: &timestamppb.Timestamp{},
				PageToken:   pageToken(filterDigest(&pb.ListTxsRequest{}), make([]byte, 16)),
			},
			"page_token",
			"different filter",
		),

		bad("not a UUID", cancelTx, &pb.CancelTxRequest{TxId: "r1"}, "tx_id",
			"valid UUID"),
		noTx("unknown UUID", cancelTx, &pb.CancelTxRequest{TxId: other}),
		bad("reason too long", cancelTx,
			&pb.CancelTxRequest{TxId: other, Reason: strings.Repeat("a", 513)}, "reason",
			"at most 512"),
		bad("operator too long", cancelTx,
			&pb.CancelTxRequest{TxId: other, Operator: strings.Repeat("a", 129)}, "operator",
			"at most 128"),
		unknown("unknown field", cancelTx, with(&pb.CancelTxRequest{TxId: other}, 9), "9",
			"CancelTxRequest"),

		bad("not a UUID", speedUpTx, &pb.SpeedUpTxRequest{TxId: "r1"}, "tx_id",
			"valid UUID"),
		bad("reason too long", speedUpTx,
			&pb.SpeedUpTxRequest{TxId: other, Reason: strings.Repeat("a", 513)}, "reason",
			"at most 512"),
		bad("reason with a NUL", speedUpTx, &pb.SpeedUpTxRequest{TxId: other, Reason: "\x00"},
			"reason", "U+0000"),
		bad("operator too long", speedUpTx,
			&pb.SpeedUpTxRequest{TxId: other, Operator: strings.Repeat("a", 129)}, "operator",
			"at most 128"),
		noTx("unknown UUID", speedUpTx, &pb.SpeedUpTxRequest{TxId: other}),
		unknown("unknown field", speedUpTx, with(&pb.SpeedUpTxRequest{TxId: other}, 9), "9",
			"SpeedUpTxRequest"),

		bad("not a UUID", approveTx, &pb.ApproveTxRequest{TxId: "r1"}, "tx_id", "valid UUID"),
		bad("reason too long", approveTx,
			&pb.ApproveTxRequest{TxId: other, Reason: strings.Repeat("a", 513)}, "reason",
			"at most 512"),
		bad("operator too long", approveTx,
			&pb.ApproveTxRequest{TxId: other, Operator: strings.Repeat("a", 129)}, "operator",
			"at most 128"),
		noTx("unknown UUID", approveTx, &pb.ApproveTxRequest{TxId: other}),
		unknown("unknown field", approveTx, with(&pb.ApproveTxRequest{TxId: other}, 9), "9",
			"ApproveTxRequest"),

		bad("not a UUID", denyTx, &pb.DenyTxRequest{TxId: "r1"}, "tx_id", "valid UUID"),
		bad("reason too long", denyTx,
			&pb.DenyTxRequest{TxId: other, Reason: strings.Repeat("a", 513)}, "reason",
			"at most 512"),
		bad("operator too long", denyTx,
			&pb.DenyTxRequest{TxId: other, Operator: strings.Repeat("a", 129)}, "operator",
			"at most 128"),
		noTx("unknown UUID", denyTx, &pb.DenyTxRequest{TxId: other}),
		unknown("unknown field", denyTx, with(&pb.DenyTxRequest{TxId: other}, 9), "9",
			"DenyTxRequest"),
	}
}

func watchRefusals(other string, alien, expired string) []refusal {
	w := watchBad
	return []refusal{
		bad("no target", watchTx, &pb.WatchTxRequest{}, "target",
			"set tx_id, submitter, all, request, txs or pool"),
		bad("not a UUID", watchTx, &pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: "1"}},
			"tx_id", "valid UUID"),
		noTx("unknown UUID", watchTx,
			&pb.WatchTxRequest{Target: &pb.WatchTxRequest_TxId{TxId: other}}),
		noTx("never created", watchTx, &pb.WatchTxRequest{
			Target: &pb.WatchTxRequest_Request{
				Request: &pb.RequestKey{Submitter: "alice", RequestId: "never"},
			},
		}),
		noSubmitter(watchTx,
			&pb.WatchTxRequest{Target: &pb.WatchTxRequest_Submitter{Submitter: "nobody"}}),
		bad("all, until final", watchTx, w(func(r *pb.WatchTxRequest) { r.UntilFinal = true }),
			"until_final", "named transactions"),
		bad("heartbeat too often", watchTx,
			w(func(r *pb.WatchTxRequest) { r.Heartbeat = durationpb.New(1) }), "heartbeat",
			"greater than or equal to 1s"),
		bad("a label without a value", watchTx,
			w(func(r *pb.WatchTxRequest) { r.Labels = []string{"order"} }), "labels[0]",
			"key=value"),
		bad("label with a line break", watchTx,
			w(func(r *pb.WatchTxRequest) { r.Labels = []string{"a=b\nc=d"} }), "labels[0]",
			"U+000A"),
		bad("conflicting labels", watchTx,
			w(func(r *pb.WatchTxRequest) { r.Labels = []string{"a=b", "a=c"} }), "labels[1]",
			"conflicts"),
		bad(
			"labels of one transaction",
			watchTx,
			&pb.WatchTxRequest{
				Target: &pb.WatchTxRequest_TxId{TxId: other},
				Labels: []string{"a=b"},
			},
			"labels",
			"omit them",
		),
		bad(
			"token of other labels",
			watchTx,
			w(
				func(r *pb.WatchTxRequest) {
					r.Labels, r.ResumeToken = []string{"a=b"},
						allToken(1, "1:1:")
				}),
			"resume_token",
			"different stream",
		),
		bad("unknown state", watchTx,
			w(func(r *pb.WatchTxRequest) { r.States = []pb.TxState{4, 99} }), "states[1]",
			"defined enum"),
		bad("state unspecified", watchTx,
			w(func(r *pb.WatchTxRequest) { r.States = []pb.TxState{0} }), "states[0]",
			"must not be unspecified"),
		bad("states too many", watchTx,
			w(func(r *pb.WatchTxRequest) { r.States = []pb.TxState{1, 2, 3, 4, 5, 6, 7, 1} }),
			"states", "no more than 7"),
		bad(
			"token of other states",
			watchTx,
			w(
				func(r *pb.WatchTxRequest) {
					r.States, r.ResumeToken = []pb.TxState{4},
						allToken(1, "1:1:")
				}),
			"resume_token",
			"different stream",
		),
		bad("malformed token", watchTx, w(func(r *pb.WatchTxRequest) { r.ResumeToken = "what" }),
			"resume_token", "malformed"),
		bad("token mangled", watchTx, w(func(r *pb.WatchTxRequest) { r.ResumeToken = "a.what" }),
			"resume_token", "malformed"),
		bad("token without a snapshot", watchTx,
			w(func(r *pb.WatchTxRequest) { r.ResumeToken = allToken(1, "") }), "resume_token",
			"malformed"),
		bad("token with an impossible snapshot", watchTx,
			w(func(r *pb.WatchTxRequest) { r.ResumeToken = allToken(1, "4294967296:4294967297:") }),
			"resume_token", "malformed"),
		bad("token of another stream", watchTx,
			w(func(r *pb.WatchTxRequest) { r.ResumeToken = alien }), "resume_token",
			"different stream"),
		{"token of another epoch", watchTx,
			w(func(r *pb.WatchTxRequest) { r.ResumeToken = expired }), codes.OutOfRange,
			"RESUME_TOKEN_EXPIRED", "", "without a token"},
		unknown("unknown field", watchTx, w(func(r *pb.WatchTxRequest) { with(r, 77) }), "77",
			"WatchTxRequest"),
	}
}

func submitterRefusals() []refusal {
	r := registerBad
	refusals := []refusal{
		bad("name in capitals", register,
			r(func(r *pb.RegisterSubmitterRequest) { r.Name = "Bob" }), "name",
			"starting with a letter"),
		bad("chain 0", register, r(func(r *pb.RegisterSubmitterRequest) { r.ChainId = 0 }),
			"chain_id", "greater than 0"),
		bad("unconfigured chain", register,
			r(func(r *pb.RegisterSubmitterRequest) { r.ChainId = 5 }), "chain_id",
			"31337"),
		bad("unconfigured signer", register,
			r(func(r *pb.RegisterSubmitterRequest) { r.Signer = "hsm" }), "signer",
			"local"),
		bad("address malformed", register,
			r(func(r *pb.RegisterSubmitterRequest) { r.Address = "0x12" }), "address",
			"40 hex digits"),
		bad("address mistyped", register,
			r(func(r *pb.RegisterSubmitterRequest) { r.Address = mistyped }), "address",
			"EIP-55 checksum"),
		bad("address zero", register,
			r(func(r *pb.RegisterSubmitterRequest) { r.Address = "0x" + strings.Repeat("0", 40) }),
			"address", "zero address"),
		bad("unknown mode", register, r(func(r *pb.RegisterSubmitterRequest) { r.Mode = 7 }),
			"mode", "defined enum"),
		bad("start_from a word", register,
			r(func(r *pb.RegisterSubmitterRequest) { r.StartFrom = "now" }), "start_from",
			"exact next nonce"),
		{"name taken", register, r(func(r *pb.RegisterSubmitterRequest) { r.Name = "alice" }),
			codes.AlreadyExists, "SUBMITTER_EXISTS", "", "different settings"},
		unknown("unknown field", register, with(r(func(*pb.RegisterSubmitterRequest) {}), 50),
			"50", "RegisterSubmitterRequest"),
		unknown("unknown field", listSubs, with(&pb.ListSubmittersRequest{}, 50), "50",
			"ListSubmittersRequest"),
		bad("page too large", listSubs, &pb.ListSubmittersRequest{PageSize: 1001}, "page_size",
			"less than or equal to 1000"),
		bad("malformed token", listSubs, &pb.ListSubmittersRequest{PageToken: "abcdefghijklmn"},
			"page_token", "next_page_token"),
		bad(
			"token of another list",
			listSubs,
			&pb.ListSubmittersRequest{
				PageToken: pageToken(filterDigest(&pb.ListTxsRequest{}),
					[]byte("\x01\x9a\xff of sixteen...")),
			},
			"page_token",
			"next_page_token",
		),
		bad(
			"token with a NUL",
			listSubs,
			&pb.ListSubmittersRequest{
				PageToken: pageToken(filterDigest(&pb.ListSubmittersRequest{}), []byte("a\x00")),
			},
			"page_token",
			"next_page_token",
		),
		bad("reason too long", pauseSub,
			&pb.PauseSubmitterRequest{Submitter: "alice", Reason: strings.Repeat("a", 513)},
			"reason", "at most 512"),
		bad("operator too long", pauseSub,
			&pb.PauseSubmitterRequest{Submitter: "alice", Operator: strings.Repeat("a", 129)},
			"operator", "at most 128"),
		bad("operator too long", resumeSub,
			&pb.ResumeSubmitterRequest{Submitter: "alice", Operator: strings.Repeat("a", 129)},
			"operator", "at most 128"),
		bad("reason with a NUL", resumeSub,
			&pb.ResumeSubmitterRequest{Submitter: "alice", Reason: "\x00"}, "reason", "U+0000"),
		bad("unknown condition", listSubs,
			&pb.ListSubmittersRequest{Conditions: []pb.SubmitterCondition{9}}, "conditions[0]",
			"defined enum"),
		bad("token of other conditions", listSubs,
			&pb.ListSubmittersRequest{
				PageToken: pageToken(filterDigest(&pb.ListSubmittersRequest{}), []byte("alice")),
				Conditions: []pb.SubmitterCondition{
					pb.SubmitterCondition_SUBMITTER_CONDITION_PAUSED,
				},
			}, "page_token", "different filter"),
		unknown("unknown field", listBalances,
			with(&pb.ListBalancesRequest{Submitters: []string{"alice"}}, 50), "50",
			"ListBalancesRequest"),
		unknown("unknown field", listCosts, with(&pb.ListCostsRequest{}, 50), "50",
			"ListCostsRequest"),
		bad("year 0", listCosts, &pb.ListCostsRequest{By: pb.CostGroup_COST_GROUP_DAY,
			From: &timestamppb.Timestamp{Seconds: -1 << 40}}, "from", "years 1 to 9999"),
		bad("year 10000", listCosts, &pb.ListCostsRequest{By: pb.CostGroup_COST_GROUP_DAY,
			From: timestamppb.Now(), Before: &timestamppb.Timestamp{Seconds: 1 << 40}}, "before",
			"years 1 to 9999"),
		bad("no group", listCosts, &pb.ListCostsRequest{From: timestamppb.Now()}, "by", ""),
		bad("no submitter", listBalances, &pb.ListBalancesRequest{}, "submitters", "at least 1"),
		unknown("unknown field", simulateTx, with(&pb.SimulateTxRequest{
			Submitter: "alice", Payload: payload()}, 50), "50", "SimulateTxRequest"),
		bad("no submitter", simulateTx, &pb.SimulateTxRequest{Payload: payload()}, "submitter",
			"is missing"),
		bad("no payload", simulateTx, &pb.SimulateTxRequest{Submitter: "alice"}, "payload",
			"is missing"),
		bad("recipient mistyped", simulateTx, &pb.SimulateTxRequest{Submitter: "alice",
			Payload: &pb.Payload{To: mistyped}}, "payload.to", "checksum"),
		bad("unknown speed", simulateTx, &pb.SimulateTxRequest{Submitter: "alice",
			Payload: payload(), Terms: &pb.Terms{Speed: 9}}, "terms.speed", "defined enum"),
		noSubmitter(simulateTx, &pb.SimulateTxRequest{Submitter: "nobody", Payload: payload()}),
		noSubmitter(listBalances, &pb.ListBalancesRequest{Submitters: []string{"nobody"}}),
		unknown("unknown field", getStatus, with(&pb.GetStatusRequest{}, 50), "50",
			"GetStatusRequest"),
		unknown("unknown field", listNodes, with(&pb.ListNodesRequest{}, 50), "50",
			"ListNodesRequest"),
		unknown("unknown field", listChains, with(&pb.ListChainsRequest{}, 50), "50",
			"ListChainsRequest"),
	}
	refusals = append(append(refusals, decisionRefusals()...), updateRefusals()...)
	for method, ask := range map[string]func(string) proto.Message{
		getSub: func(name string) proto.Message { return &pb.GetSubmitterRequest{Submitter: name} },
		updateSub: func(name string) proto.Message {
			return updateBad(func(r *pb.UpdateSubmitterRequest) { r.Submitter = name })
		},
		pauseSub: func(name string) proto.Message {
			return &pb.PauseSubmitterRequest{Submitter: name}
		},
		resumeSub: func(name string) proto.Message {
			return &pb.ResumeSubmitterRequest{Submitter: name}
		},
		protectSub: func(name string) proto.Message {
			return &pb.ProtectSubmitterRequest{Submitter: name, Reason: "r"}
		},
		exitProtect: func(name string) proto.Message {
			return exitBad(func(r *pb.ExitProtectRequest) { r.Submitter = name })
		},
		listCommands: func(name string) proto.Message {
			return &pb.ListCommandsRequest{Submitter: name}
		},
	} {
		refusals = append(
			refusals,
			bad("account id mistyped", method, ask("eip155:1:"+mistyped), "submitter", "EIP-55"),
			noSubmitter(method, ask("nobody")),
			unknown("unknown field", method, with(ask("alice"), 50), "50",
				"update the server"),
		)
		if method != listCommands {
			refusals = append(refusals,
				bad("no submitter", method, ask(""), "submitter", "is missing; set it"))
		}
	}
	return refusals
}

func updateBad(change func(*pb.UpdateSubmitterRequest)) proto.Message {
	r := &pb.UpdateSubmitterRequest{
		Submitter:  "alice",
		MaxFee:     "7",
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"max_fee"}},
	}
	change(r)
	return r
}

func updateRefusals() []refusal {
	u := updateBad
	return []refusal{
		bad("no mask", updateSub, u(func(r *pb.UpdateSubmitterRequest) { r.UpdateMask = nil }),
			"update_mask", "is missing"),
		bad("empty mask", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.UpdateMask.Paths = nil }), "update_mask",
			"on_failure, max_fee"),
		bad(
			"mask of an immutable field",
			updateSub,
			u(
				func(r *pb.UpdateSubmitterRequest) {
					r.UpdateMask.Paths = []string{"max_fee",
						"signer"}
				}),
			"update_mask",
			`"signer", which cannot be changed`,
		),
		bad("unknown mode", updateSub, u(func(r *pb.UpdateSubmitterRequest) {
			r.Mode, r.UpdateMask = 9, &fieldmaskpb.FieldMask{Paths: []string{"mode"}}
		}), "mode", "defined enum"),
		bad("wildcard mask", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.UpdateMask.Paths = []string{"*"} }),
			"update_mask", "on_failure, max_fee"),
		bad("reason with a line separator", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.Reason = "a\u2028" }), "reason", "U+2028"),
		bad("operator with a bidirectional isolate", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.Operator = "ops\u2066" }), "operator",
			"U+2066"),
		bad("mask with a NUL", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.UpdateMask.Paths = []string{"\x00"} }),
			"update_mask.paths[0]", "U+0000"),
		bad("reason too long", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.Reason = strings.Repeat("a", 513) }), "reason",
			"at most 512"),
		bad("reason with a NUL", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.Reason = "a\x00" }), "reason", "U+0000"),
		bad("operator too long", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.Operator = strings.Repeat("a", 129) }),
			"operator", "at most 128"),
		bad("operator with a NUL", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.Operator = "a\x00" }), "operator", "U+0000"),
		bad(
			"unknown policy",
			updateSub,
			u(
				func(r *pb.UpdateSubmitterRequest) {
					r.OnFailure, r.UpdateMask.Paths = 9,
						[]string{"on_failure"}
				}),
			"on_failure",
			"defined enum",
		),
		bad("cap beyond 256 bits", updateSub,
			u(func(r *pb.UpdateSubmitterRequest) { r.MaxFee = tooBig }), "max_fee",
			"above 2^256-1"),
		bad("cap in gwei", updateSub, u(func(r *pb.UpdateSubmitterRequest) { r.MaxFee = "1.5" }),
			"max_fee", "whole number of wei"),
		bad("cap of zero", updateSub, u(func(r *pb.UpdateSubmitterRequest) { r.MaxFee = "0" }),
			"max_fee", "must be above 0"),
	}
}

func exitBad(change func(*pb.ExitProtectRequest)) proto.Message {
	r := &pb.ExitProtectRequest{
		Submitter:    "protected",
		ProtectionId: 1,
		Decision:     pb.ProtectionDecision_PROTECTION_DECISION_RESUME,
		Reason:       "r",
	}
	change(r)
	return r
}

func resolveBad(change func(*pb.ResolveStuckRequest)) proto.Message {
	r := &pb.ResolveStuckRequest{
		TxId:     uuid.NewString(),
		Decision: pb.StuckDecision_STUCK_DECISION_FAIL,
		Reason:   "r",
	}
	change(r)
	return r
}

func decisionRefusals() []refusal {
	long := strings.Repeat("a", 513)
	e, r := exitBad, resolveBad
	return []refusal{
		bad("no reason", protectSub, &pb.ProtectSubmitterRequest{Submitter: "alice"}, "reason",
			"is missing; set it"),
		bad("blank reason", protectSub,
			&pb.ProtectSubmitterRequest{Submitter: "alice", Reason: "  \u00a0\u3000"}, "reason",
			"must not be blank"),
		bad("reason too long", protectSub,
			&pb.ProtectSubmitterRequest{Submitter: "alice", Reason: long}, "reason", "at most 512"),
		bad("operator too long", protectSub,
			&pb.ProtectSubmitterRequest{Submitter: "alice", Reason: "r", Operator: long},
			"operator", "at most 128"),

		bad("no protection", exitProtect, e(func(r *pb.ExitProtectRequest) { r.ProtectionId = 0 }),
			"protection_id", "greater than 0"),
		bad("no decision", exitProtect, e(func(r *pb.ExitProtectRequest) { r.Decision = 0 }),
			"decision", "must not be unspecified"),
		bad("unknown decision", exitProtect,
			e(func(r *pb.ExitProtectRequest) { r.Decision = 9 }), "decision", "defined enum"),
		bad("no reason", exitProtect, e(func(r *pb.ExitProtectRequest) { r.Reason = "" }), "reason",
			"is missing; set it"),
		bad("blank reason", exitProtect, e(func(r *pb.ExitProtectRequest) { r.Reason = "   " }),
			"reason", "must not be blank"),
		bad("operator with a NUL", exitProtect,
			e(func(r *pb.ExitProtectRequest) { r.Operator = "a\x00" }), "operator", "U+0000"),
		{"unknown protection", exitProtect,
			e(func(r *pb.ExitProtectRequest) { r.ProtectionId = 2 }), codes.Aborted,
			"PROTECTION_CHANGED", "", `protection 1 (NONCE_USED_ELSEWHERE)`},
		{"never started", exitProtect, e(func(r *pb.ExitProtectRequest) { r.Submitter = "alice" }),
			codes.Aborted, "PROTECTION_CHANGED", "", "no protection is in force"},

		bad("not a UUID", resolveStuck, r(func(r *pb.ResolveStuckRequest) { r.TxId = "17" }),
			"tx_id", "valid UUID"),
		bad("no decision", resolveStuck, r(func(r *pb.ResolveStuckRequest) { r.Decision = 0 }),
			"decision", "must not be unspecified"),
		bad("no reason", resolveStuck, r(func(r *pb.ResolveStuckRequest) { r.Reason = "" }),
			"reason", "is missing; set it"),
		bad("blank reason", resolveStuck, r(func(r *pb.ResolveStuckRequest) { r.Reason = "   " }),
			"reason", "must not be blank"),
		bad("operator with a NUL", resolveStuck,
			r(func(r *pb.ResolveStuckRequest) { r.Operator = "a\x00" }), "operator", "U+0000"),
		noTx("unknown UUID", resolveStuck, r(func(*pb.ResolveStuckRequest) {})),
		unknown("unknown field", resolveStuck,
			with(resolveBad(func(*pb.ResolveStuckRequest) {}), 50), "50", "update the server"),

		bad("page too large", listCommands,
			&pb.ListCommandsRequest{Submitter: "alice", PageSize: 1001}, "page_size",
			"less than or equal to 1000"),
		bad("malformed token", listCommands,
			&pb.ListCommandsRequest{Submitter: "alice", PageToken: "!"}, "page_token",
			"next_page_token"),
		bad("token of another submitter", listCommands, &pb.ListCommandsRequest{Submitter: "alice",
			PageToken: pageToken(filterDigest(&pb.ListCommandsRequest{Submitter: "bob"}),
				make([]byte, 8))}, "page_token", "different filter"),
		bad("token of another list", listCommands, &pb.ListCommandsRequest{Submitter: "alice",
			PageToken: pageToken(filterDigest(&pb.ListCommandsRequest{Submitter: "alice"}),
				[]byte("bob"))}, "page_token", "next_page_token"),
	}
}

// stored counts the rows that a rejected call could have left behind.
func (h *harness) stored() string {
	return fmt.Sprint(h.count("managed_tx"), h.count("tx_event"), h.count("submitter"),
		h.count("submitter_command"))
}

// Every RPC rejects every kind of bad input with the right code and reason, a remedy, and without
// storing anything.
func TestInvalidRequest_Rejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	n := h.serve(
		func(o *Options) { o.Chains, o.Signers = append(o.Chains, chainID), []string{"local"} })
	h.register("alice")
	h.own(h.register("paused")).pause()
	h.own(h.register("protected")).protect()
	_, err := n.txs.CreateTx(n.ctx, &pb.CreateTxRequest{
		Submitter: "alice",
		RequestId: "used",
		Payload:   &pb.Payload{To: recipient, Value: "2"},
	})
	h.must(err)
	tx := n.create("alice", "other").GetTxId()
	epoch, head, err := h.store.FeedHead(n.ctx)
	h.must(err)

	before := h.stored()
	refusals := append(createRefusals(), readRefusals(uuid.NewString())...)
	refusals = append(
		append(append(refusals, submitterRefusals()...), labelRefusals()...),
		batchRefusals()...)
	refusals = append(
		refusals,
		watchRefusals(uuid.NewString(), feed.TxToken(epoch, feed.Target{Tx: txID(t, tx)}, 1),
			allToken(epoch-1, head))...)
	refusals = append(
		refusals,
		severalRefusals(uuid.NewString(), tx, feed.TxToken(epoch, feed.Target{Tx: txID(t, tx)},
			1))...)
	checkCoverage(t, refusals)
	for _, r := range refusals {
		t.Run(strings.Split(r.method, "/")[1]+"/"+r.name, func(t *testing.T) { r.check(t, n) })
	}
	if after := h.stored(); after != before {
		t.Errorf("rows before %s, after %s: a rejected call left something behind", before, after)
	}
}

func (r refusal) check(t *testing.T, n *node) {
	s := wantStatus(t, n.call(r.method, r.ask), r.code, r.reason)
	if !strings.Contains(s.Message(), r.message) {
		t.Errorf("message %q lacks %q", s.Message(), r.message)
	}
	fields := []string{}
	for _, d := range s.Details() {
		if b, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range b.GetFieldViolations() {
				fields = append(fields, v.GetField())
			}
		}
	}
	if got := strings.Join(fields, " "); r.field != "" && got != r.field {
		t.Errorf("the violations are of %q, want %q", got, r.field)
	}
}

// call calls a method by name, and returns how a stream ended.
func (n *node) call(method string, ask proto.Message) error {
	ctx, cancel := context.WithTimeout(n.ctx, testTimeout)
	defer cancel()
	if method != watchTx {
		return n.conn.Invoke(ctx, "/fencepost.v1."+method, ask, &pb.CreateTxResponse{})
	}
	stream, err := n.txs.WatchTx(ctx, ask.(*pb.WatchTxRequest))
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}
