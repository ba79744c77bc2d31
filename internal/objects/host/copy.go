package host

import (
	"fmt"
	"reflect"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// copyInto copies the message from into the message to, deeply, so that neither side sees changes by the other. If
// owned is true, from is no longer used, and to shares its contents instead. A message of more than limit bytes is
// refused, as it would be between two nodes.
func copyInto(to, from any, limit int, owned bool) error {
	dst, err := asMessage(to)
	if err != nil {
		return err
	}
	src, err := asMessage(from)
	if err != nil {
		return err
	}
	if err := checkSize(src, limit); err != nil {
		return err
	}
	proto.Reset(dst)
	d, s := dst.ProtoReflect(), src.ProtoReflect()
	same := reflect.TypeOf(to) == reflect.TypeOf(from) && d.Descriptor() == s.Descriptor()
	switch {
	case same && owned:
		shareContents(d, s)
		return nil
	case same:
		proto.Merge(dst, src)
		return nil
	}
	// The Go types differ: one is dynamic, or of another version.
	raw, err := proto.Marshal(src)
	if err == nil {
		err = proto.Unmarshal(raw, dst)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "objects: cannot copy a %T to a %T: %v", from, to, err)
	}
	return nil
}

// shareContents sets the empty message dst to src without copying the contents.
func shareContents(dst, src protoreflect.Message) {
	src.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		dst.Set(field, v)
		return true
	})
	dst.SetUnknown(src.GetUnknown())
}

// checkSize returns an error if the message has more than limit bytes; a limit of 0 means none.
func checkSize(v any, limit int) error {
	if limit == 0 {
		return nil
	}
	m, err := asMessage(v)
	if err != nil {
		return err
	}
	if size := proto.Size(m); size > limit {
		return status.Errorf(codes.ResourceExhausted, "objects: the message has %d bytes and may have %d: send less, "+
			"or raise MaxMessage on all nodes", size, limit)
	}
	return nil
}

// AppendMarshal appends the serialized message to b.
func AppendMarshal(b []byte, from any) ([]byte, error) {
	m, err := asMessage(from)
	if err != nil {
		return nil, err
	}
	raw, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "objects: cannot serialize a %T: %v", from, err)
	}
	return raw, nil
}

// Unmarshal parses raw into the message to, which it resets first.
func Unmarshal(raw []byte, to any) error {
	m, err := asMessage(to)
	if err != nil {
		return err
	}
	proto.Reset(m) // proto.Unmarshal would reset it by reflection
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(raw, m); err != nil {
		return status.Errorf(codes.Internal, "objects: cannot read a %T: %v", to, err)
	}
	return nil
}

// asMessage returns v as a message, or an error if it is none.
func asMessage(v any) (proto.Message, error) {
	switch m := v.(type) {
	case proto.Message:
		return m, nil
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(m), nil
	}
	return nil, status.Errorf(codes.Internal, "objects: a %s is no message of protocol buffers", fmt.Sprintf("%T", v))
}
