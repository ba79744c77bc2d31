package objects

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/internal/objects/hosted"
)

// Registrar hosts services; a *cluster.Cluster is one.
type Registrar interface {
	Objects() *Objects
}

// Register hosts a service as objects. Call it before the cluster's Start. register is the generated function
// Register...Server of protoc-gen-go-grpc. factory returns the implementation for one key. It is called before
// the first call of the object, on the node that owns the key's shard, and at most once at a time for each key
// in the cluster. Its ctx ends after the activation time-out of the cluster's configuration, or when the shard
// is lost. If factory returns an error, the waiting calls fail, and the next call tries again. An error that is
// not a gRPC status becomes UNAVAILABLE. The implementation may implement [Activator] and [Deactivator].
//
// Every node that takes part in the shards must register the same services. Like http.Handle, Register panics
// on a mistake in the program: the cluster was started already, the service is registered twice, or an option
// names a method that the service does not have.
func Register[T any](c Registrar, register func(grpc.ServiceRegistrar, T),
	factory func(ctx context.Context, o *Object) (T, error), options ...Option) {
	if register == nil || factory == nil {
		panic("objects: Register needs the generated Register...Server function, and a factory")
	}
	var caught descCatcher
	var none T
	register(&caught, none)
	if caught.desc == nil {
		panic("objects: the function given to Register registers no service: give it the generated Register...Server")
	}
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Interface {
		panic(fmt.Sprintf("objects: %s: the implementations are of type %v, which is no interface", caught.desc.ServiceName,
			t))
	}
	c.Objects().cluster().Register(hosted.Service{
		Desc: caught.desc,
		New: func(ctx context.Context, o *hosted.Object) (any, error) {
			impl, err := factory(ctx, (*Object)(o))
			if err != nil {
				return nil, err
			}
			if err := checkNotified(caught.desc, impl); err != nil {
				return nil, err
			}
			if any(impl) == nil {
				return nil, fmt.Errorf("objects: the factory of %s returned neither an implementation nor an error",
					caught.desc.ServiceName)
			}
			return impl, nil
		},
		Options: applyOptions(caught.desc, options),
	})
}

// descCatcher is a registrar that keeps the description of a service.
type descCatcher struct{ desc *grpc.ServiceDesc }

// RegisterService implements grpc.ServiceRegistrar.
func (c *descCatcher) RegisterService(desc *grpc.ServiceDesc, _ any) {
	if c.desc != nil {
		panic(fmt.Sprintf("objects: one function registers both %s and %s: register each service by itself",
			c.desc.ServiceName, desc.ServiceName))
	}
	c.desc = desc
}

// checkNotified returns an error if Activated or Deactivated of an implementation would never be called.
func checkNotified(desc *grpc.ServiceDesc, impl any) error {
	v := reflect.ValueOf(impl)
	if !v.IsValid() {
		return nil
	}
	wrong := ""
	if _, ok := impl.(Activator); !ok && v.MethodByName("Activated").IsValid() {
		wrong = "Activated"
	}
	if _, ok := impl.(Deactivator); !ok && v.MethodByName("Deactivated").IsValid() {
		wrong = "Deactivated"
	}
	if wrong == "" || slices.ContainsFunc(desc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == wrong }) ||
		slices.ContainsFunc(desc.Streams, func(m grpc.StreamDesc) bool { return m.StreamName == wrong }) {
		return nil
	}
	return fmt.Errorf("objects: the method %s of %T would not be called: it is to be Activated(context.Context) error, "+
		"or Deactivated(context.Context, objects.Reason)", wrong, impl)
}
