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
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/fencepost/fencepost/internal/typo"
	"github.com/fencepost/fencepost/server/contract"
	"github.com/fencepost/fencepost/server/status"
)

// checkJSON rejects values that protojson would misread, and names the field of a value of the
// wrong type, which protojson does not. Above all, protojson accepts hex as base64 and drops the
// remaining bits, so other call data would be sent than the client intended.
//
// Protojson alone decides which values fit. Its depth is bounded by the depth of the contract.
func checkJSON(text []byte, of protoreflect.MessageDescriptor) error {
	if err := checkUTF8(text, "request"); err != nil {
		return err
	}
	r := newJSONReader(text)
	return r.refusal(r.message(of, ""))
}

// checkJSONField is checkJSON for one field.
func checkJSONField(text []byte, field protoreflect.FieldDescriptor) error {
	if err := checkUTF8(text, string(field.Name())); err != nil {
		return err
	}
	r := newJSONReader(text)
	return r.refusal(r.field(field, string(field.Name())))
}

// checkUTF8 names the first byte that is not UTF-8. JSON decoders replace it, or name no place.
func checkUTF8(text []byte, path string) error {
	if utf8.Valid(text) {
		return nil
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return status.InvalidField(path,
				"must be UTF-8, unlike byte 0x%02x at offset %d; encode the JSON as UTF-8",
				text[at], at)
		}
		at += size
	}
	return nil
}

// jsonReader walks JSON along the contract and stops at the first mistake.
type jsonReader struct {
	*json.Decoder
	text []byte
}

func newJSONReader(text []byte) jsonReader {
	r := jsonReader{json.NewDecoder(bytes.NewReader(text)), text}
	r.UseNumber()
	return r
}

// separators are what may precede a value.
const separators = " \t\r\n,:"

// errMalformed ends the walk at malformed JSON, which protojson reports.
var errMalformed = errors.New("server: malformed JSON")

func (jsonReader) refusal(err error) error {
	var bad *status.InvalidError
	if errors.As(err, &bad) {
		return bad
	}
	return nil
}

// opens reads the start of an object or a list, and reports whether there is one. A null is none.
func (r jsonReader) opens(with json.Delim, path string) (bool, error) {
	token, err := r.Token()
	switch {
	case err != nil:
		return false, err
	case token == with:
		return true, nil
	case token == nil:
		return false, nil
	case path == "": // the whole request
		return false, errMalformed
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

// object reads an object. Known returns the field of a name, value reads its value.
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
			return errMalformed
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
			field.FullName() == contract.BatchRequests { // bounds the memory of the message
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

// item reads a value of a list or a map, which must not be null.
func (r jsonReader) item(field protoreflect.FieldDescriptor, path string) error {
	if next := bytes.TrimLeft(r.text[r.InputOffset():],
		separators); bytes.HasPrefix(next, []byte("null")) {
		return status.InvalidField(path, "must not be null; set a value, or omit it")
	}
	return r.value(field, path)
}

func (r jsonReader) value(field protoreflect.FieldDescriptor, path string) error {
	if of := field.Message(); of != nil &&
		of.ParentFile().Package() != "google.protobuf" { // times and masks are strings in JSON
		return r.message(of, path)
	}
	before := r.InputOffset()
	token, err := r.Token()
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		return status.InvalidField(path, "%s (%v)", wanted(field), bad)
	}
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
	case fits(field, bytes.TrimLeft(r.text[before:r.InputOffset()], separators)):
		return nil
	case field.Enum() != nil:
		return noSuchName(path, field)
	}
	return status.InvalidField(path, "%s", wanted(field))
}

// fits reports whether protojson accepts a scalar as the only value of a field.
func fits(field protoreflect.FieldDescriptor, scalar []byte) bool {
	form := `{%q:%s}`
	if field.IsList() {
		form = `{%q:[%s]}`
	}
	return protojson.Unmarshal(fmt.Appendf(nil, form, field.JSONName(), scalar),
		dynamicpb.NewMessage(field.ContainingMessage())) == nil
}

// wanted describes the values of a field.
func wanted(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return "must be true or false, without quotes"
	case protoreflect.BytesKind:
		return "must be base64 in quotes"
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
		return `must be a decimal string of wei: a whole number in quotes, ` +
			`for example "1000000000000000000" for one ether`
	}
	return "must be a string, in quotes"
}

// wantedKnown describes the messages that are strings in JSON.
var wantedKnown = map[protoreflect.Name]string{
	"Timestamp": "must be a time like 2026-01-02T15:04:05Z, in quotes",
	"Duration":  "must be a time in seconds like 15s or 0.5s, in quotes",
	"FieldMask": "must be one string; " + contract.MaskRemedy,
}

// hexText matches strings that are meant as hex. Padded base64 never matches. Base64 of 32 letters
// that are all lower-case hex digits does not occur: its zero bytes are capital letters, and other
// bytes have a chance of one in 2^64.
var hexText = regexp.MustCompile(`^(0[xX][0-9a-fA-F]*|[0-9a-f]{32,})$`)

// checkBase64 accepts standard and URL-safe base64, with or without padding, like protojson, but
// rejects the left-over bits that no encoder writes.
func checkBase64(text, path string) error {
	if hexText.MatchString(text) {
		return status.InvalidField(path,
			"must be base64, but looks like hex; convert it: xxd -r -p | base64 -w0 (without 0x)")
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
			"must be base64 as an encoder writes it (%v); encode the bytes again", err)
	}
	return nil
}

// unknownName describes an unknown field by its name, like contract.UnknownField by its number.
func unknownName(of protoreflect.MessageDescriptor, name, path string) status.Violation {
	if message := contract.AssignedField(of, name); message != "" {
		return status.Violation{Field: contract.Join(path, name), Message: message}
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

// nearest returns the field whose name differs by a typo: by at most two letters, and fewer than
// half of them; empty if there is none.
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
