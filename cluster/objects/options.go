package objects

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/objects/hosted"
)

// Option is an option of [Register].
type Option func(*hosted.Options)

// Concurrent lets any number of calls of the given methods run beside all other calls of the object. Without
// names it applies to all methods. The implementation must then guard its shared state. Make streams that stay
// open, such as subscriptions, concurrent; otherwise they block all other calls of the object.
func Concurrent(methods ...string) Option {
	return func(o *hosted.Options) { o.Concurrent = append(o.Concurrent, methodsOrAll(methods)...) }
}

// Reentrant lets calls of the given methods enter an object that is waiting for them, because the call that has
// the turn made them, directly or through other objects. Without names it applies to all methods. Such a call
// runs while the turn waits, so it finds the implementation's state as the waiting call left it. Calls of other
// methods fail with FAILED_PRECONDITION.
func Reentrant(methods ...string) Option {
	return func(o *hosted.Options) { o.Reentrant = append(o.Reentrant, methodsOrAll(methods)...) }
}

// Idempotent states that calls of the given methods may be repeated. Without names it applies to all methods.
// If the node of such a call dies, the call is sent to the next owner within its deadline, although it may have
// run already.
func Idempotent(methods ...string) Option {
	return func(o *hosted.Options) { o.Idempotent = append(o.Idempotent, methodsOrAll(methods)...) }
}

// IdleAfter sets the time without a call after which an object is deactivated. It replaces the configuration's.
func IdleAfter(d time.Duration) Option { return func(o *hosted.Options) { o.IdleAfter = d } }

// MaxQueue limits the calls that wait for one object. It replaces the configuration's limit. Further calls fail
// with RESOURCE_EXHAUSTED.
func MaxQueue(calls int) Option { return func(o *hosted.Options) { o.MaxQueue = calls } }

func methodsOrAll(methods []string) []string {
	if len(methods) == 0 {
		return []string{hosted.AllMethods}
	}
	return methods
}

// applyOptions applies the options. It panics if one of them is invalid.
func applyOptions(desc *grpc.ServiceDesc, options []Option) hosted.Options {
	var o hosted.Options
	for _, option := range options {
		option(&o)
	}
	if o.IdleAfter < 0 || o.MaxQueue < 0 {
		panic(fmt.Sprintf("objects: %s: IdleAfter and MaxQueue are not to be negative", desc.ServiceName))
	}
	for _, list := range [][]string{o.Concurrent, o.Reentrant, o.Idempotent} {
		for _, name := range list {
			if name != hosted.AllMethods && !hasMethod(desc, name) {
				panic(fmt.Sprintf("objects: %s has no method %q: check the names given to the options", desc.ServiceName, name))
			}
		}
	}
	return o
}

func hasMethod(desc *grpc.ServiceDesc, method string) bool {
	return slices.ContainsFunc(desc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == method }) ||
		slices.ContainsFunc(desc.Streams, func(s grpc.StreamDesc) bool { return s.StreamName == method })
}
