package server

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/fencepost/fencepost/gen/go/fencepost/v1"
	"github.com/fencepost/fencepost/server/status"
)

// requests are the messages that callers send, for the rules to be compiled at start.
func requests() []proto.Message {
	return []proto.Message{
		&pb.CreateTxRequest{}, &pb.BatchCreateTxRequest{}, &pb.GetTxRequest{}, &pb.ListTxsRequest{}, &pb.CancelTxRequest{}, &pb.SpeedUpTxRequest{}, &pb.WatchTxRequest{},
		&pb.RegisterSubmitterRequest{}, &pb.GetSubmitterRequest{}, &pb.ListSubmittersRequest{}, &pb.UpdateSubmitterRequest{}, &pb.PauseSubmitterRequest{},
		&pb.ResumeSubmitterRequest{}, &pb.ProtectSubmitterRequest{}, &pb.ExitProtectRequest{}, &pb.ResolveStuckRequest{}, &pb.ListCommandsRequest{},
	}
}

// check refuses a request that breaks the contract, whatever it asks for.
func (s *Server) check(request proto.Message) error {
	if err := checkRead(request); err != nil {
		return err
	}
	f := &finder{}
	if !clean(request.ProtoReflect()) {
		f.walk(request.ProtoReflect(), "")
	}
	if len(f.unknown) > 0 {
		return status.UnknownField(f.unknown...)
	}
	if len(f.long) > 0 { // the rules would say something of each item
		return status.Invalid(f.long...)
	}
	if err := s.checkRules(judged(request), f.unfit); err != nil {
		return err
	}
	return nil
}

// checkRules applies the rules that the contract writes next to its fields.
func (s *Server) checkRules(request proto.Message, found []status.Violation) error {
	err := s.rules.Validate(request)
	var broken *protovalidate.ValidationError
	if err != nil && !errors.As(err, &broken) {
		return fmt.Errorf("server: apply the rules of the contract: %w", err)
	}
	if broken != nil {
		for _, v := range broken.Violations {
			if len(found) > status.MaxViolations {
				break
			}
			field := protovalidate.FieldPathString(v.Proto.GetField())
			if field == "" {
				field = "request"
			}
			found = append(found,
				status.Violation{Field: field, Message: sentence(request.ProtoReflect().Descriptor(), v)})
		}
	}
	if len(found) == 0 {
		return nil
	}
	return status.Invalid(found...)
}

// mostItems is more than any list or map of a request may have, but for a batch. One that has more is not looked into: something may be wrong with each of its items.
const mostItems = 128

func tooMany(field protoreflect.FieldDescriptor, items int) bool {
	return items > mostItems && field.FullName() != batchRequests
}

const labelKey = "1 to 63 of a-z, 0-9, \"-\", \"_\", \".\" and \"/\", starting with a letter"

// labelText is the path of a label that is asked for, rather than given.
var labelText = regexp.MustCompile(`^labels\[[0-9]+\]$`)

// sentence says what must hold, where the rule's own words are about the rule and not about the value.
func sentence(of protoreflect.MessageDescriptor, v *protovalidate.Violation) string {
	field := protovalidate.FieldPathString(v.Proto.GetField())
	switch rule := v.Proto.GetRuleId(); {
	case rule == "string.pattern" && labelText.MatchString(field):
		return "must be written as \"key=value\", where the key is " + labelKey
	case rule == "string.pattern" && strings.HasPrefix(field, "labels["):
		return "must have a key of " + labelKey
	case rule == "required" && v.FieldDescriptor == nil:
		return "names nothing; set " + oneOf(of, field)
	case rule == "required",
		rule == "string.min_len" && v.FieldValue.IsValid() && v.FieldValue.String() == "":
		return "is missing; set it"
	case rule == "string.uuid" && v.FieldValue.IsValid() && strings.Contains(v.FieldValue.String(), ","):
		return "must be a valid UUID: the tx_id that CreateTx answered; name each by itself, not with commas"
	case rule == "string.uuid", rule == "string.uuid_empty":
		return "must be a valid UUID: the tx_id that CreateTx answered"
	case rule == "enum.not_in" && v.FieldDescriptor != nil && !v.FieldDescriptor.IsList():
		return "must not be unspecified; name one"
	case rule == "enum.not_in":
		return "must not be unspecified; leave it out, or name one"
	case rule == "string.pattern" && field == "address":
		return "must be \"0x\" followed by 40 hex digits"
	case rule == "string.pattern" && (field == "max_fee" || field == "terms.max_fee"):
		return "must be a whole number of wei in decimal digits, or empty to set no limit"
	case rule == "string.pattern" && field == "name":
		return "must be 1 to 64 of a-z, 0-9, \"-\", \"_\" and \".\", starting with a letter"
	}
	return v.Proto.GetMessage()
}

// oneOf lists what can be set of a oneof, of which one thing must be.
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

// clean tells that a message has nothing of what a finder finds, without a path to anything: most messages have not.
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
		case field.FullName() == batchRequests: // see walk
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
		return strings.IndexByte(value.String(), 0) < 0
	}
	return true
}

// finder walks a message for what protobuf lets through and the server does not.
//
// An unknown field is refused rather than ignored: a caller who sends one relies on something that this server would not do. That matters most for a nonce or
// a sender.
//
// It finds no more than is told of.
type finder struct {
	unknown []status.Violation
	unfit   []status.Violation
	long    []status.Violation
}

// add notes what is wrong, and one more than is told.
func add(found *[]status.Violation, field, says string) {
	if len(*found) <= status.MaxViolations {
		*found = append(*found, status.Violation{Field: field, Message: says})
	}
}

// walk ends because no message of the contract contains itself.
func (f *finder) walk(m protoreflect.Message, path string) {
	f.findUnknown(m, path)
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		at := join(path, string(field.Name()))
		switch {
		case field.IsMap() && tooMany(field, value.Map().Len()):
			add(&f.long, at,
				fmt.Sprintf("has %d entries, far more than it may; send fewer", value.Map().Len()))
			return true
		case field.IsList() && tooMany(field, value.List().Len()):
			add(&f.long, at,
				fmt.Sprintf("has %d items, far more than it may; send fewer", value.List().Len()))
			return true
		case field.FullName() == batchRequests: // each is checked, and answered, for itself
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

// batchRequests is the field whose items have an answer each.
const batchRequests = "fencepost.v1.BatchCreateTxRequest.requests"

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
		if strings.ContainsRune(value.String(), 0) {
			add(&f.unfit, path,
				"must not contain a NUL character, which the ledger cannot hold; remove it")
		}
	}
}

func (f *finder) findUnknown(m protoreflect.Message, path string) {
	last := protowire.Number(0)
	for rest := m.GetUnknown(); len(rest) > 0 && len(f.unknown) <= status.MaxViolations; {
		number, _, length := protowire.ConsumeField(rest)
		if length < 0 {
			return // cannot be: what was unmarshalled is well-formed
		}
		if rest = rest[length:]; number != last { // once of many in a row
			f.unknown = append(f.unknown, unknownField(m.Descriptor(), number, path))
		}
		last = number
	}
}

// The reserved numbers of Payload.
const (
	payloadFrom  = 14
	payloadNonce = 15
)

func unknownField(of protoreflect.MessageDescriptor, number protowire.Number,
	path string) status.Violation {
	if of.FullName() == (&pb.Payload{}).ProtoReflect().Descriptor().FullName() {
		switch number {
		case payloadFrom:
			return status.Violation{
				Field:   join(path, "from"),
				Message: "the sender is the submitter of the request; remove this field from the payload",
			}
		case payloadNonce:
			return status.Violation{
				Field:   join(path, "nonce"),
				Message: "Fencepost assigns the nonce; remove this field from the payload",
			}
		}
	}
	return status.Violation{Field: join(path, fmt.Sprint(number)),
		Message: fmt.Sprintf("this server knows no field %d of %s; remove it, or update the server", number,
			of.Name())}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
