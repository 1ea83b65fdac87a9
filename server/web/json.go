package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fencepost/fencepost/internal/typo"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/server/status"
)

// checkJSON refuses what protojson takes for something else than its caller means, and says of what
// is of another type than its field which field that is, which protojson does not. Above all: hex
// is base64 to it, with bits left over that it drops, so it would send other call data than the
// caller has.
//
// It says nothing of all else that is wrong, for protojson to say. It looks into no more than the
// contract describes, so it is no deeper than that.
func checkJSON(text []byte, of protoreflect.MessageDescriptor) error {
	r := newJSONReader(text)
	return r.refusal(r.message(of, ""))
}

// checkJSONField is checkJSON for what is in one field.
func checkJSONField(text []byte, field protoreflect.FieldDescriptor) error {
	r := newJSONReader(text)
	return r.refusal(r.field(field, string(field.Name())))
}

// jsonReader walks JSON along the contract, once, and stops at the first mistake.
type jsonReader struct {
	*json.Decoder
	text []byte
}

func newJSONReader(text []byte) jsonReader {
	r := jsonReader{json.NewDecoder(bytes.NewReader(text)), text}
	r.UseNumber()
	return r
}

// errNotMine ends the walk where it cannot go on: protojson finds out why.
var errNotMine = errors.New("server: JSON of another form")

func (jsonReader) refusal(err error) error {
	var bad *status.InvalidError
	if errors.As(err, &bad) {
		return bad
	}
	return nil
}

// opens reads the beginning of an object or a list. A null stands for none.
func (r jsonReader) opens(with json.Delim, path string) (bool, error) {
	token, err := r.Token()
	switch {
	case err != nil:
		return false, err
	case token == with:
		return true, nil
	case token == nil:
		return false, nil
	case path == "": // all of it
		return false, errNotMine
	case with == '[':
		return false, status.InvalidField(path, "must be a list; write it in [ and ]")
	}
	return false, status.InvalidField(path,
		"must be an object; write it in { and }, with the names of its fields")
}

func (r jsonReader) message(of protoreflect.MessageDescriptor, path string) error {
	return r.object(path, func(name string) (protoreflect.FieldDescriptor, string, error) {
		field := of.Fields().ByJSONName(name)
		if field == nil {
			field = of.Fields().ByTextName(name)
		}
		if field == nil {
			return nil, "", status.UnknownField(unknownName(of, name, path))
		}
		return field, contract.Join(path, string(field.Name())), nil
	}, r.field)
}

// object reads an object, of whose names it is told what they are.
func (r jsonReader) object(path string,
	known func(string) (protoreflect.FieldDescriptor, string, error),
	value func(protoreflect.FieldDescriptor, string) error) error {
	open, err := r.opens('{', path)
	if !open {
		return err
	}
	for r.More() {
		token, err := r.Token()
		if err != nil {
			return err
		}
		name, isText := token.(string)
		if !isText {
			return errNotMine
		}
		field, at, err := known(name)
		if err != nil {
			return err
		}
		if err := value(field, at); err != nil {
			return err
		}
	}
	_, err = r.Token()
	return err
}

func (r jsonReader) field(field protoreflect.FieldDescriptor, path string) error {
	switch {
	case field.IsMap():
		return r.object(path, func(key string) (protoreflect.FieldDescriptor, string, error) {
			return field.MapValue(), fmt.Sprintf("%s[%q]", path, key), nil
		}, r.item)
	case field.IsList():
		return r.list(field, path)
	}
	return r.value(field, path)
}

func (r jsonReader) list(field protoreflect.FieldDescriptor, path string) error {
	open, err := r.opens('[', path)
	if !open {
		return err
	}
	for i := 0; r.More(); i++ {
		if i == contract.MaxBatchItems &&
			field.FullName() == contract.BatchRequests { // more would become much in memory
			return status.InvalidField(path, "must contain no more than %d item(s)",
				contract.MaxBatchItems)
		}
		if err := r.item(field, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	_, err = r.Token()
	return err
}

// item is a value of a list or a map, which can be left out, but not be null.
func (r jsonReader) item(field protoreflect.FieldDescriptor, path string) error {
	if next := bytes.TrimLeft(r.text[r.InputOffset():], " \t\r\n,:"); bytes.HasPrefix(next,
		[]byte("null")) {
		return status.InvalidField(path, "must not be null; give it a value, or leave it out")
	}
	return r.value(field, path)
}

func (r jsonReader) value(field protoreflect.FieldDescriptor, path string) error {
	if of := field.Message(); of != nil &&
		of.ParentFile().Package() != "google.protobuf" { // times and masks are strings in JSON
		return r.message(of, path)
	}
	token, err := r.Token()
	switch {
	case err != nil:
		return err
	case token == nil:
		return nil
	}
	text, isText := token.(string)
	switch {
	case field.Kind() == protoreflect.BytesKind && isText:
		return checkBase64(text, path)
	case fits(field, token):
		return nil
	case field.Enum() != nil:
		return noSuchName(path, field)
	}
	return status.InvalidField(path, "%s", wanted(field))
}

// fits tells whether what has no parts is a value of a field.
func fits(field protoreflect.FieldDescriptor, token json.Token) bool {
	text, isText := token.(string)
	number, isNumber := token.(json.Number)
	_, isTruth := token.(bool)
	switch {
	case field.Enum() != nil && isText:
		return field.Enum().Values().ByName(protoreflect.Name(text)) != nil
	case field.Kind() == protoreflect.StringKind:
		return isText
	case field.Kind() == protoreflect.BoolKind:
		return isTruth
	case !isText && !isNumber:
		return false
	}
	into := readable(field)
	if into == nil {
		return true // for protojson to say
	}
	written := []byte(number)
	if isText {
		written, _ = json.Marshal(text) // a text always can be
	}
	return protojson.Unmarshal(written, into) == nil
}

// readable is a message that protojson reads just as a value of a field, so that what is judged
// here is what it takes: a number may be in quotes, and be 2e4.
func readable(field protoreflect.FieldDescriptor) proto.Message {
	switch field.Kind() {
	case protoreflect.Int32Kind, protoreflect.EnumKind:
		return &wrapperspb.Int32Value{}
	case protoreflect.Int64Kind:
		return &wrapperspb.Int64Value{}
	case protoreflect.Uint32Kind:
		return &wrapperspb.UInt32Value{}
	case protoreflect.Uint64Kind:
		return &wrapperspb.UInt64Value{}
	case protoreflect.BytesKind:
		return &wrapperspb.BytesValue{}
	case protoreflect.MessageKind:
		if kind, err := protoregistry.GlobalTypes.FindMessageByName(field.Message().FullName()); err == nil {
			return kind.New().Interface()
		}
	}
	return nil
}

// wanted says what belongs where there is something else.
func wanted(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return "must be true or false, without quotes"
	case protoreflect.BytesKind:
		return "bytes are base64, which is a string; write it in quotes"
	case protoreflect.Int32Kind:
		return fmt.Sprintf("must be a whole number, %d at most", math.MaxInt32)
	case protoreflect.Int64Kind:
		return fmt.Sprintf("must be a whole number, %d at most", math.MaxInt64)
	case protoreflect.Uint32Kind:
		return fmt.Sprintf("must be a whole number, from 0 to %d", uint32(math.MaxUint32))
	case protoreflect.Uint64Kind:
		return fmt.Sprintf("must be a whole number, from 0 to %d", uint64(math.MaxUint64))
	case protoreflect.MessageKind:
		return wantedKnown[field.Message().Name()]
	}
	if field.Name() == "max_fee" || field.FullName() == "fencepost.v1.Payload.value" {
		return `is a decimal string of wei: a whole number in quotes, for example "1000000000000000000" for one ether`
	}
	return "is a string; write it in quotes"
}

// wantedKnown are the messages that are strings in JSON.
var wantedKnown = map[protoreflect.Name]string{
	"Timestamp": "must be a time like 2026-01-02T15:04:05Z, in quotes",
	"Duration":  "must be a time in seconds like 15s or 0.5s, in quotes",
	"FieldMask": "must be one string; " + contract.MaskRemedy,
}

// hexText is what nobody means as base64. What base64 pads is never taken for it, nor is what has
// any other letter. Base64 of 32 letters that happens to have none but those that libraries write
// hex with, without its "0x", does not come about: its zeros are capital letters, and of other
// bytes it would be one in 2^64.
var hexText = regexp.MustCompile(`^(0[xX][0-9a-fA-F]*|[0-9a-f]{32,})$`)

// checkBase64 takes standard and URL-safe base64, with padding or without, as the JSON of protobuf
// has it, but only as an encoder writes it: without bits that no byte is made of.
func checkBase64(text, path string) error {
	if hexText.MatchString(text) {
		return status.InvalidField(path,
			"bytes are base64; this looks like hex: convert it, as with `xxd -r -p | base64 -w0` "+
				"without the \"0x\"")
	}
	encoding := base64.StdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.URLEncoding
	}
	if len(text)%4 != 0 {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	if _, err := encoding.Strict().DecodeString(text); err != nil {
		return status.InvalidField(path,
			"bytes are base64, and this is none that an encoder writes (%v); encode the bytes "+
				"anew, hex as with `xxd -r -p | base64 -w0`",
			err)
	}
	return nil
}

// unknownName says of a name what unknownField says of a number.
func unknownName(of protoreflect.MessageDescriptor, name, path string) status.Violation {
	if of.ReservedNames().Has(protoreflect.Name(name)) {
		for number, reserved := range map[protoreflect.FieldNumber]string{contract.PayloadFrom: "from",
			contract.PayloadNonce: "nonce"} {
			if reserved == name {
				return contract.UnknownField(of, number, path)
			}
		}
	}
	meant := ""
	if near := nearest(of, name); near != "" {
		meant = fmt.Sprintf("; did you mean %q?", near)
	}
	return status.Violation{
		Field:   contract.Join(path, name),
		Message: "this server knows no such field there; remove it, or update the server" + meant,
	}
}

// nearest is the field whose name differs from one by a slip of the hand: up to two letters, and
// fewer than half of them; empty if there is none.
func nearest(of protoreflect.MessageDescriptor, name string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "_", ""))
	names := map[string]string{}
	var lower []string
	for i := range of.Fields().Len() {
		known := of.Fields().Get(i).JSONName()
		names[strings.ToLower(known)] = known
		lower = append(lower, strings.ToLower(known))
	}
	return names[typo.Nearest(name, lower, min(2, (len(name)-1)/2))]
}
