package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// field is the name of the field with a record's format.
const field = "format"

// Rest holds the fields of a record that its reader does not know. A process that replaces the record writes them
// back.
type Rest map[string]json.RawMessage

// Encode returns v, which must encode as a JSON object, as a record in format First. The fields of rest follow those
// of v.
func Encode(v any, rest Rest) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	body, isObject := bytes.CutPrefix(body, []byte("{"))
	if !isObject {
		return nil, fmt.Errorf("format: a %T does not encode as a JSON object", v)
	}
	return encodeFields(fmt.Appendf(nil, `{"%s":%d`, field, First), body, rest)
}

// EncodeVersioned is Encode for a record that states its format itself.
func EncodeVersioned(v any, rest Rest) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil || len(rest) == 0 {
		return body, err
	}
	return encodeFields(body[:len(body)-1], []byte("}"), rest)
}

// encodeFields returns the object that begins with head, continues with body, which has the closing brace, and has the
// fields of rest.
func encodeFields(head, body []byte, rest Rest) ([]byte, error) {
	out := head
	if fields := body[:len(body)-1]; len(fields) > 0 {
		out = append(append(out, ','), fields...)
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		out = append(append(append(append(out, ','), key...), ':'), rest[name]...)
	}
	return append(out, '}'), nil
}

// stated is the part of a record that states its format.
type stated struct {
	Format *int `json:"format"`
}

// CheckRecord returns an [Error] about subject if the record states a format that this release does not read, and the
// error of package json if that is no number. It returns nil for a value that is no record: its decoder reports that.
func CheckRecord(subject string, value []byte) error {
	var s stated
	err := json.Unmarshal(value, &s)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field == field {
		return err
	}
	if err != nil || s.Format == nil {
		return nil
	}
	return Own().Check(subject, *s.Format, "")
}

// DecodeKnown decodes a record into the struct that into points to, and ignores other fields. It is for records that
// this process never writes over. It returns an [Error] about subject for a format that this release does not
// read, and otherwise the errors of package json.
func DecodeKnown(subject string, value []byte, into any) error {
	if err := CheckRecord(subject, value); err != nil {
		return err
	}
	return json.Unmarshal(value, into)
}

// Decode is DecodeKnown for records that this process may replace. It returns the fields that the struct does not
// have, for Encode.
func Decode(subject string, value []byte, into any) (Rest, error) {
	if err := DecodeKnown(subject, value, into); err != nil {
		return nil, err
	}
	return RestOf(value, into), nil
}

// RestOf returns the fields of the JSON object that the struct that into points to does not have, except the one with
// the format.
func RestOf(value []byte, into any) Rest {
	var rest Rest
	if json.Unmarshal(value, &rest) != nil {
		return nil
	}
	known := reflect.TypeOf(into).Elem()
	for name := range rest {
		if name == field || hasField(known, name) {
			delete(rest, name)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}

// hasField reports whether package json decodes a field with that name into the struct.
func hasField(known reflect.Type, name string) bool {
	for i := range known.NumField() {
		f := known.Field(i)
		said, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && said != "-" && (said == "" && strings.EqualFold(f.Name, name) || strings.EqualFold(said, name)) {
			return true
		}
	}
	return false
}
