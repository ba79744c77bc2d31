package route

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/proto/goverse/objects/v1"
)

// callOptions holds the call options that apply to calls of objects.
type callOptions struct {
	header, trailer []*metadata.MD
	finished        []func(error)
}

// readOptions reads the options. It ignores those about a connection's transport. It returns an error for options that
// change the call and cannot be honoured.
func (a *callOptions) readOptions(opts []grpc.CallOption) error {
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

// applyFinished carries out the options that apply when the call has ended.
func (a *callOptions) applyFinished(c *host.Call, err error) {
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

// splitFinish separates OnFinish from the other options of a stream. The returned function calls the functions that
// were given, with the error of the call, when it is called first or ctx ends.
func splitFinish(ctx context.Context, opts []grpc.CallOption) (finish func(error), others []grpc.CallOption) {
	var given []func(error)
	for _, opt := range opts {
		if o, ok := opt.(grpc.OnFinishCallOption); ok {
			given = append(given, o.OnFinish)
		} else {
			others = append(others, opt)
		}
	}
	if len(given) == 0 {
		return func(error) {}, others
	}
	var finished atomic.Bool
	callOnce := func(err error) {
		if finished.Swap(true) {
			return
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		for _, f := range given {
			f(err)
		}
	}
	stop := context.AfterFunc(ctx, func() { callOnce(status.FromContextError(ctx.Err()).Err()) })
	return func(err error) {
		stop()
		callOnce(err)
	}, others
}

// ToHeaders converts metadata to its form in messages between processes.
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

// splitMethod splits a full method name.
func splitMethod(full string) (service, method string, ok bool) {
	service, method, ok = strings.Cut(strings.TrimPrefix(full, "/"), "/")
	return service, method, ok && service != "" && method != ""
}
