// Package contract checks requests against the rules of the proto, before any handler reads them.
//
// It rejects unknown fields, text with control or invisible characters, lists far beyond their
// limit, and everything that breaks a rule written next to a field. [Codec] marks messages that are
// not protobuf, so that they are rejected here as well, with a reason.
package contract

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
)

// Requests returns one message of each request type.
func Requests() []proto.Message {
	return []proto.Message{
		&pb.CreateTxRequest{}, &pb.BatchCreateTxRequest{}, &pb.GetTxRequest{}, &pb.ListTxsRequest{},
		&pb.CancelTxRequest{}, &pb.SpeedUpTxRequest{}, &pb.WatchTxRequest{},
		&pb.ApproveTxRequest{}, &pb.DenyTxRequest{},
		&pb.RegisterSubmitterRequest{}, &pb.GetSubmitterRequest{}, &pb.ListSubmittersRequest{},
		&pb.UpdateSubmitterRequest{}, &pb.PauseSubmitterRequest{},
		&pb.ResumeSubmitterRequest{}, &pb.ProtectSubmitterRequest{}, &pb.ExitProtectRequest{},
		&pb.ResolveStuckRequest{}, &pb.ListCommandsRequest{},
		&pb.GetStatusRequest{}, &pb.ListNodesRequest{}, &pb.ListChainsRequest{},
		&pb.ListBalancesRequest{}, &pb.ListCostsRequest{}, &pb.SimulateTxRequest{},
		&pb.ListSinksRequest{}, &pb.ListUndeliveredRequest{}, &pb.PauseSinkRequest{},
		&pb.ResumeSinkRequest{}, &pb.RetryUndeliveredRequest{}, &pb.SkipUndeliveredRequest{},
		&pb.ReplaySinkRequest{},
		&pb.CreatePoolRequest{}, &pb.ListPoolsRequest{}, &pb.GetPoolRequest{},
		&pb.AddPoolMemberRequest{}, &pb.DrainPoolMemberRequest{}, &pb.RemovePoolMemberRequest{},
		&pb.AllocateNonceRequest{}, &pb.RecordNonceHashRequest{}, &pb.ReleaseNonceRequest{},
		&pb.QuarantineNonceRequest{}, &pb.ExtendReservationRequest{}, &pb.SubmitSignedRequest{},
		&pb.GetNonceRequest{}, &pb.ListNoncesRequest{}, &pb.ResolveNonceRequest{},
	}
}

// Validator checks requests. It is safe for concurrent use.
type Validator struct{ rules protovalidate.Validator }

// New compiles the rules of all requests.
func New() (*Validator, error) {
	rules, err := protovalidate.New(protovalidate.WithMessages(Requests()...),
		protovalidate.WithDisableLazy())
	if err != nil {
		return nil, fmt.Errorf("server: compile the rules of the contract: %w", err)
	}
	return &Validator{rules}, nil
}

// Check rejects a request that breaks the contract, with a [status.InvalidError]. The items of a
// batch are not checked: each of them has its own result.
func (v *Validator) Check(request proto.Message) error {
	if err := checkDecoded(request); err != nil {
		return err
	}
	f := &finder{}
	if !clean(request.ProtoReflect()) {
		f.walk(request.ProtoReflect(), "")
	}
	if len(f.unknown) > 0 {
		return status.UnknownField(f.unknown...)
	}
	if len(f.long) > 0 { // the rules would report each item
		return status.Invalid(f.long...)
	}
	return v.checkRules(withoutUnmasked(request), f.hidden)
}

// checkRules applies the rules that the proto declares next to its fields. found are the fields
// with hidden characters.
func (v *Validator) checkRules(request proto.Message, found []status.Violation) error {
	hidden := len(found)
	err := v.rules.Validate(request)
	var broken *protovalidate.ValidationError
	if err != nil && !errors.As(err, &broken) {
		return fmt.Errorf("server: validate the request: %w", err)
	}
	if broken != nil {
		for _, one := range broken.Violations {
			if len(found) > status.MaxViolations {
				break
			}
			field := protovalidate.FieldPathString(one.Proto.GetField())
			if field == "" {
				field = "request"
			}
			if slices.ContainsFunc(found[:hidden], func(v status.Violation) bool {
				return v.Field == field
			}) {
				continue // its characters are the mistake
			}
			found = append(found,
				status.Violation{Field: field,
					Message: description(request.ProtoReflect().Descriptor(), one)})
		}
	}
	if len(found) == 0 {
		return nil
	}
	return status.Invalid(found...)
}

// MaxItems is above the limit of every list and map except a batch. The items of a longer one are
// not examined: each could have a mistake.
const MaxItems = 128

func tooMany(field protoreflect.FieldDescriptor, items int) bool {
	return items > MaxItems && field.FullName() != BatchRequests
}

const labelKey = "1 to 63 of a-z, 0-9, \"-\", \"_\", \".\" and \"/\", starting with a letter"

// labelText is the path of a label in a filter.
var labelText = regexp.MustCompile(`^labels\[[0-9]+\]$`)

// description returns the requirement that a value violates. It replaces those messages of rules
// that describe the rule instead.
func description(of protoreflect.MessageDescriptor, v *protovalidate.Violation) string {
	field := protovalidate.FieldPathString(v.Proto.GetField())
	switch rule := v.Proto.GetRuleId(); {
	case rule == "string.pattern" && labelText.MatchString(field):
		return "must have the form \"key=value\", with a key of " + labelKey
	case rule == "string.pattern" && strings.HasPrefix(field, "labels["):
		return "must have a key of " + labelKey
	case rule == "required" && v.FieldDescriptor == nil:
		return "is missing; set " + oneOf(of, field)
	case rule == "required",
		rule == "string.min_len" && v.FieldValue.IsValid() && v.FieldValue.String() == "",
		rule == "bytes.min_len" && v.FieldValue.IsValid() && len(v.FieldValue.Bytes()) == 0:
		return "is missing; set it"
	case rule == "string.uuid" && v.FieldValue.IsValid() && strings.Contains(v.FieldValue.String(),
		","):
		return "must be a valid UUID, as returned by CreateTx; " +
			"send each ID as a separate value, without commas"
	case rule == "string.uuid" && v.FieldValue.IsValid() && field == "tx_id" &&
		strings.HasPrefix(v.FieldValue.String(), "0x") && of.Fields().ByName("hash") != nil:
		return "must be a valid UUID, as returned by CreateTx; " +
			"send a hash in the field hash (GET /api/v1/tx/by-hash/HASH)"
	case rule == "string.uuid", rule == "string.uuid_empty":
		return "must be a valid UUID, as returned by " + issuer(field)
	case rule == "enum.not_in" && v.FieldDescriptor != nil && !v.FieldDescriptor.IsList():
		return "must not be unspecified; set a value"
	case rule == "enum.not_in":
		return "must not be unspecified; omit it, or set a value"
	case rule == "string.pattern" && field == "address":
		return "must be \"0x\" followed by 40 hex digits"
	case rule == "string.pattern" && (field == "max_fee" || field == "terms.max_fee"):
		return "must be a whole number of wei in decimal digits, or empty to set no limit"
	case rule == "string.pattern" && field == "name":
		return "must be 1 to 64 of a-z, 0-9, \"-\", \"_\" and \".\", starting with a letter"
	}
	return v.Proto.GetMessage()
}

// issuer is the call that returns the id in a field.
func issuer(field string) string {
	if field == "reservation_id" {
		return "AllocateNonce"
	}
	return "CreateTx"
}

// oneOf lists the fields of a oneof, one of which must be set.
func oneOf(of protoreflect.MessageDescriptor, name string) string {
	choice := of.Oneofs().ByName(protoreflect.Name(name))
	if choice == nil {
		return "exactly one of its fields"
	}
	var names []string
	for i := range choice.Fields().Len() {
		names = append(names, string(choice.Fields().Get(i).Name()))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// clean reports whether a finder would find nothing. It builds no paths: most messages are clean.
func clean(m protoreflect.Message) bool {
	if len(m.GetUnknown()) > 0 {
		return false
	}
	ok := true
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap() && tooMany(field, value.Map().Len()),
			field.IsList() && tooMany(field, value.List().Len()):
			ok = false
		case field.IsMap():
			value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				ok = cleanValue(field.MapKey(), key.Value()) && cleanValue(field.MapValue(), value)
				return ok
			})
		case field.FullName() == BatchRequests: // see walk
		case field.IsList():
			for i := 0; ok && i < value.List().Len(); i++ {
				ok = cleanValue(field, value.List().Get(i))
			}
		default:
			ok = cleanValue(field, value)
		}
		return ok
	})
	return ok
}

func cleanValue(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return clean(value.Message())
	case protoreflect.StringKind:
		return !strings.ContainsFunc(value.String(), hidden)
	}
	return true
}

// hidden reports whether a character changes what a reader sees, or cannot be stored: controls (C0,
// C1), format characters (zero width, bidirectional), and separators of lines and paragraphs.
func hidden(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// finder collects content that protobuf accepts and the server rejects, up to one violation more
// than is reported.
//
// An unknown field is rejected, not ignored: its client relies on something that this server would
// not do. That matters most for a nonce or a sender.
type finder struct {
	unknown []status.Violation
	hidden  []status.Violation
	long    []status.Violation
}

// add records a violation, up to one more than is reported.
func add(found *[]status.Violation, field, message string) {
	if len(*found) <= status.MaxViolations {
		*found = append(*found, status.Violation{Field: field, Message: message})
	}
}

// walk terminates because no message of the contract contains itself.
func (f *finder) walk(m protoreflect.Message, path string) {
	f.findUnknown(m, path)
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		at := Join(path, string(field.Name()))
		switch {
		case field.IsMap() && tooMany(field, value.Map().Len()):
			add(&f.long, at,
				fmt.Sprintf("has %d entries, far above its limit; send fewer", value.Map().Len()))
			return true
		case field.IsList() && tooMany(field, value.List().Len()):
			add(&f.long, at,
				fmt.Sprintf("has %d items, far above its limit; send fewer", value.List().Len()))
			return true
		case field.FullName() == BatchRequests: // each item has its own check and result
			return true
		case field.IsMap():
			f.entries(field, value.Map(), at)
			return true
		case field.IsList():
			for i := range value.List().Len() {
				f.value(field, value.List().Get(i), fmt.Sprintf("%s[%d]", at, i))
			}
			return true
		}
		f.value(field, value, at)
		return true
	})
}

// BatchRequests is the full name of the field whose items each have their own result.
const BatchRequests = "fencepost.v1.BatchCreateTxRequest.requests"

func (f *finder) entries(field protoreflect.FieldDescriptor, entries protoreflect.Map,
	path string) {
	entries.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		at := fmt.Sprintf("%s[%q]", path, key.String())
		f.value(field.MapKey(), key.Value(), at)
		f.value(field.MapValue(), value, at)
		return true
	})
}

func (f *finder) value(field protoreflect.FieldDescriptor, value protoreflect.Value, path string) {
	switch field.Kind() {
	case protoreflect.MessageKind:
		f.walk(value.Message(), path)
	case protoreflect.StringKind:
		if i := strings.IndexFunc(value.String(), hidden); i >= 0 {
			r, _ := utf8.DecodeRuneInString(value.String()[i:])
			add(&f.hidden, path, fmt.Sprintf("must not contain control or invisible characters, "+
				"such as U+%04X at byte %d; remove them", r, i))
		}
	}
}

func (f *finder) findUnknown(m protoreflect.Message, path string) {
	last := protowire.Number(0)
	for rest := m.GetUnknown(); len(rest) > 0 && len(f.unknown) <= status.MaxViolations; {
		number, _, length := protowire.ConsumeField(rest)
		if length < 0 {
			return // impossible: the message was unmarshalled
		}
		if rest = rest[length:]; number != last { // report a repeated field once
			f.unknown = append(f.unknown, UnknownField(m.Descriptor(), number, path))
		}
		last = number
	}
}

// PayloadFrom and PayloadNonce are reserved numbers of Payload.
const (
	PayloadFrom  = 14
	PayloadNonce = 15
)

var payload = (&pb.Payload{}).ProtoReflect().Descriptor().FullName()

// UnknownField describes an unknown field by its number.
func UnknownField(of protoreflect.MessageDescriptor, number protowire.Number,
	path string) status.Violation {
	if of.FullName() == payload {
		name := map[protowire.Number]string{PayloadFrom: "from", PayloadNonce: "nonce"}[number]
		if message := AssignedField(of, name); message != "" {
			return status.Violation{Field: Join(path, name), Message: message}
		}
	}
	return status.Violation{Field: Join(path, fmt.Sprint(number)),
		Message: fmt.Sprintf("%s has no field %d on this server; remove it, or update the server",
			of.Name(), number)}
}

// AssignedField describes a field of a transaction that clients do not set: its sender or its
// nonce, in the payload or beside it. Empty: it is another field.
func AssignedField(of protoreflect.MessageDescriptor, name string) string {
	has := of.Fields().ByName("payload")
	switch {
	case of.FullName() != payload && (has == nil || has.Message() == nil ||
		has.Message().FullName() != payload):
		return ""
	case name == "from":
		return "the sender is the submitter of the request; remove this field"
	case name == "nonce":
		return "Fencepost assigns the nonce; remove this field, or sign the transaction with a " +
			"nonce from NonceService (docs/external.md)"
	}
	return ""
}

// Join returns the path of a field of the message at path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
