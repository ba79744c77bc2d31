package objects

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
)

// Options say how a service is hosted. The zero value is one call at a time, and the configuration's limits.
type Options struct {
	// Concurrent, Reentrant and Idempotent are names of methods, without the service's.
	Concurrent, Reentrant, Idempotent []string
	// IdleAfter is after how long without a call an object is deactivated; 0 is the configuration's.
	IdleAfter time.Duration
	// MaxQueue is how many calls may wait for one object; 0 is the configuration's.
	MaxQueue int
}

// Option is an option of [Register].
type Option func(*Options)

// Concurrent lets calls of these methods run beside all other calls of the object, as many as come; without
// names, all methods. The implementation then guards what it shares itself. Streams that stay open,
// such as subscriptions, are to be concurrent, or nobody else calls the object meanwhile.
func Concurrent(methods ...string) Option {
	return func(o *Options) { o.Concurrent = append(o.Concurrent, orAll(methods)...) }
}

// Reentrant lets calls of these methods, without names all, into an object whose turn waits for them:
// the call was made, directly or through other objects, by the call that has the turn. It runs
// while that waits, so the implementation finds its state as that left it. Elsewhere such a call
// fails with FAILED_PRECONDITION.
func Reentrant(methods ...string) Option {
	return func(o *Options) { o.Reentrant = append(o.Reentrant, orAll(methods)...) }
}

// Idempotent says that a call of these methods, without names all, may be repeated: one whose node
// died is sent to the next owner within its deadline, although it may have run already.
func Idempotent(methods ...string) Option {
	return func(o *Options) { o.Idempotent = append(o.Idempotent, orAll(methods)...) }
}

// IdleAfter is after how long without a call an object is deactivated, in place of the configuration's.
func IdleAfter(d time.Duration) Option { return func(o *Options) { o.IdleAfter = d } }

// MaxQueue is how many calls may wait for one object, in place of the configuration's; further
// ones fail with RESOURCE_EXHAUSTED.
func MaxQueue(calls int) Option { return func(o *Options) { o.MaxQueue = calls } }

// all stands for every method of a service.
const all = "*"

func orAll(methods []string) []string {
	if len(methods) == 0 {
		return []string{all}
	}
	return methods
}

// Names reports whether a list of Options names a method.
func Names(list []string, method string) bool {
	return slices.Contains(list, method) || slices.Contains(list, all)
}

// optionsOf applies the options, and panics where one is a mistake.
func optionsOf(desc *grpc.ServiceDesc, options []Option) Options {
	var o Options
	for _, option := range options {
		option(&o)
	}
	if o.IdleAfter < 0 || o.MaxQueue < 0 {
		panic(fmt.Sprintf("objects: %s: IdleAfter and MaxQueue are not to be negative", desc.ServiceName))
	}
	for _, list := range [][]string{o.Concurrent, o.Reentrant, o.Idempotent} {
		for _, name := range list {
			if name != all && !has(desc, name) {
				panic(fmt.Sprintf("objects: %s has no method %q: check the names given to the options", desc.ServiceName, name))
			}
		}
	}
	return o
}

func has(desc *grpc.ServiceDesc, method string) bool {
	return slices.ContainsFunc(desc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == method }) ||
		slices.ContainsFunc(desc.Streams, func(s grpc.StreamDesc) bool { return s.StreamName == method })
}
