package route

import (
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// asked are the call options that mean something for a call to an object.
type asked struct {
	header, trailer []*metadata.MD
	finished        []func(error)
}

// read takes the options. Those about a connection's transport have no effect; those that the call would
// need to be what its caller expects, and that there is no way to follow, are an error.
func (a *asked) read(opts []grpc.CallOption) error {
	for _, opt := range opts {
		switch o := opt.(type) {
		case grpc.HeaderCallOption:
			a.header = append(a.header, o.HeaderAddr)
		case grpc.TrailerCallOption:
			a.trailer = append(a.trailer, o.TrailerAddr)
		case grpc.OnFinishCallOption:
			a.finished = append(a.finished, o.OnFinish)
		case grpc.PerRPCCredsCallOption, grpc.CustomCodecCallOption, grpc.ForceCodecCallOption, grpc.ForceCodecV2CallOption:
			return status.Error(codes.Unimplemented, fmt.Sprintf("objects: calls of objects do not take the option %T", opt))
		}
	}
	return nil
}

// finish does what was asked for when the call has ended.
func (a *asked) finish(c *Call, err error) {
	for _, md := range a.header {
		*md = c.Header
	}
	for _, md := range a.trailer {
		*md = c.Trailer
	}
	for _, f := range a.finished {
		f(err)
	}
}

// ToHeaders is metadata as it travels.
func ToHeaders(md metadata.MD) []*objectspb.Header {
	var all []*objectspb.Header
	for name, values := range md {
		for _, value := range values {
			all = append(all, &objectspb.Header{Name: name, Value: []byte(value)})
		}
	}
	return all
}

// FromHeaders is the reverse of ToHeaders.
func FromHeaders(all []*objectspb.Header) metadata.MD {
	if len(all) == 0 {
		return nil
	}
	md := make(metadata.MD, len(all))
	for _, h := range all {
		name := strings.ToLower(h.GetName())
		md[name] = append(md[name], string(h.GetValue()))
	}
	return md
}

// cutMethod takes a full method name apart.
func cutMethod(full string) (service, method string, ok bool) {
	service, method, ok = strings.Cut(strings.TrimPrefix(full, "/"), "/")
	return service, method, ok && service != "" && method != ""
}
