package wire

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

var (
	errUTF8   = errors.New("a method or a name in a header is not valid UTF-8")
	errNumber = errors.New("the number of a field is too large")
	errMany   = errors.New("too many calls, ids or headers in a message")
)

// Limits of the elements in a message. A peer never sends more (package link has a test of that). Far more
// empty elements would fit into a message, and each takes a hundred times as much memory as bytes.
const (
	MaxCalls     = 22 << 10 // also limits replies
	MaxHeaders   = 128 << 10
	maxCancelled = 512 << 10
)

// wireField is one field of a message: its number and its value, by its wire type.
type wireField struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64
	bytes  []byte
}

// nextField parses the first field of b. For wire types that no field here has, it sets only the number and the
// type.
func nextField(b []byte) (f wireField, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return wireField{}, nil, protowire.ParseError(n)
	}
	if number > protowire.MaxValidNumber {
		return wireField{}, nil, errNumber
	}
	f.number, f.kind = number, kind
	b = b[n:]
	switch kind {
	case protowire.VarintType:
		f.varint, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	case protowire.Fixed64Type:
		f.varint, n = protowire.ConsumeFixed64(b)
	default:
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return wireField{}, nil, protowire.ParseError(n)
	}
	return f, b[n:], nil
}

// matches reports whether f is the field with that number and wire type. A field of another type is an unknown
// field.
func (f wireField) matches(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

func (r *Request) parse(b []byte) (err error) {
	m, headers := &r.Message, headersLeft(MaxHeaders)
	for len(b) > 0 {
		var f wireField
		if f, b, err = nextField(b); err != nil {
			return err
		}
		switch {
		case f.matches(requestHello, protowire.BytesType):
			if m.Hello == nil {
				m.Hello = &objectspb.Hello{}
			}
			err = proto.UnmarshalOptions{Merge: true, DiscardUnknown: true}.Unmarshal(f.bytes, m.Hello)
		case f.matches(requestCalls, protowire.BytesType):
			if len(m.Calls) == MaxCalls {
				return errMany
			}
			c := NewCall()
			m.Calls = append(m.Calls, c)
			err = parseCall(f.bytes, c, r.methods, &headers)
		case f.matches(requestCancelled, protowire.BytesType):
			m.Cancelled, err = parseIDs(f.bytes, m.Cancelled)
		case f.matches(requestCancelled, protowire.VarintType):
			m.Cancelled, err = appendID(m.Cancelled, f.varint)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Response) parse(b []byte) (err error) {
	m, headers := &r.Message, headersLeft(MaxHeaders)
	for len(b) > 0 {
		var f wireField
		if f, b, err = nextField(b); err != nil {
			return err
		}
		if f.matches(responseReplies, protowire.BytesType) {
			if len(m.Replies) == MaxCalls {
				return errMany
			}
			reply := newReply()
			m.Replies = append(m.Replies, reply)
			if err = parseReply(f.bytes, reply, &headers); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseIDs(b []byte, ids []uint64) (_ []uint64, err error) {
	for len(b) > 0 && err == nil {
		id, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return ids, protowire.ParseError(n)
		}
		b = b[n:]
		ids, err = appendID(ids, id)
	}
	return ids, err
}

func appendID(ids []uint64, id uint64) ([]uint64, error) {
	if len(ids) == maxCancelled {
		return ids, errMany
	}
	return append(ids, id), nil
}

func parseCall(b []byte, c *objectspb.Call, methods methodNames, headers *headersLeft) (err error) {
	for len(b) > 0 {
		var f wireField
		if f, b, err = nextField(b); err != nil {
			return err
		}
		switch {
		case f.matches(callID, protowire.VarintType):
			c.Id = f.varint
		case f.matches(callMethod, protowire.BytesType):
			if !utf8.Valid(f.bytes) {
				return errUTF8
			}
			c.Method = methods.intern(f.bytes)
		case f.matches(callKey, protowire.BytesType):
			c.Key = append(c.Key[:0], f.bytes...)
		case f.matches(callRequest, protowire.BytesType):
			c.Request = append(fitSpace(c.Request, len(f.bytes)), f.bytes...)
		case f.matches(callMore, protowire.VarintType):
			c.More = protowire.DecodeBool(f.varint)
		case f.matches(callTimeout, protowire.VarintType):
			c.Timeout = int64(f.varint)
		case f.matches(callMetadata, protowire.BytesType):
			c.Metadata, err = headers.parseHeader(f.bytes, c.Metadata)
		case f.matches(callChain, protowire.BytesType):
			c.Chain, err = parseTurns(f.bytes, c.Chain)
		case f.matches(callChain, protowire.Fixed64Type):
			c.Chain = append(c.Chain, f.varint)
		case f.matches(callMapGeneration, protowire.VarintType):
			c.Generation = int64(f.varint)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func parseReply(b []byte, r *objectspb.Reply, headers *headersLeft) (err error) {
	for len(b) > 0 {
		var f wireField
		if f, b, err = nextField(b); err != nil {
			return err
		}
		switch {
		case f.matches(replyID, protowire.VarintType):
			r.Id = f.varint
		case f.matches(replyResponse, protowire.BytesType):
			r.Response = append(fitSpace(r.Response, len(f.bytes)), f.bytes...)
		case f.matches(replyMore, protowire.VarintType):
			r.More = protowire.DecodeBool(f.varint)
		case f.matches(replyStatus, protowire.BytesType):
			r.Status = append([]byte(nil), f.bytes...)
		case f.matches(replyHeader, protowire.BytesType):
			r.Header, err = headers.parseHeader(f.bytes, r.Header)
		case f.matches(replyTrailer, protowire.BytesType):
			r.Trailer, err = headers.parseHeader(f.bytes, r.Trailer)
		case f.matches(replyMoved, protowire.VarintType):
			r.Moved = int64(f.varint)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// headersLeft is the number of headers that a message may still have.
type headersLeft int

// parseHeader appends a header.
func (n *headersLeft) parseHeader(b []byte, headers []*objectspb.Header) ([]*objectspb.Header, error) {
	if *n == 0 {
		return headers, errMany
	}
	*n--
	h := &objectspb.Header{}
	return append(headers, h), proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, h)
}

func parseTurns(b []byte, turns []uint64) ([]uint64, error) {
	for len(b) > 0 {
		turn, n := protowire.ConsumeFixed64(b)
		if n < 0 {
			return turns, protowire.ParseError(n)
		}
		turns, b = append(turns, turn), b[n:]
	}
	return turns, nil
}
