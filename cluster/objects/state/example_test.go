package state_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
)

// activation replaces the *objects.Object of an activated object.
type activation struct {
	key   string
	epoch int64
}

func (a activation) Service() string { return "example.Counters" }
func (a activation) Key() string     { return a.key }
func (a activation) Epoch() int64    { return a.epoch }

// Counter is an object that keeps a number.
type Counter struct {
	state *state.State[*wrapperspb.Int64Value]
}

// newCounter loads the number. It does the work of the factory passed to objects.Register.
func newCounter(ctx context.Context, store state.Store, o state.Holder) (*Counter, error) {
	s, err := state.Load(ctx, store, o, &wrapperspb.Int64Value{})
	return &Counter{state: s}, err
}

// Add is one of its methods. In a gRPC service the id would come from state.RequestID(ctx).
func (c *Counter) Add(ctx context.Context, id string, by int64) (*wrapperspb.Int64Value, error) {
	return state.Do(ctx, c.state, id, func(context.Context) (*wrapperspb.Int64Value, error) {
		c.state.Value().Value += by
		return wrapperspb.Int64(c.state.Value().Value), nil
	})
}

// An object moves to another node, under a larger epoch. A call that is repeated there takes effect once, and
// the former owner stores nothing any more.
func Example() {
	ctx := context.Background()
	store := &state.Memory{} // in production, a store of package postgres or etcd
	here, err := newCounter(ctx, store, activation{"visits", 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(here.Add(ctx, "request 1", 5))
	there, err := newCounter(ctx, store, activation{"visits", 2})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(there.Add(ctx, "request 1", 5)) // suppose that its reply was lost
	fmt.Println(there.Add(ctx, "request 2", 5))
	_, err = here.Add(ctx, "request 3", 5)
	fmt.Println(errors.Is(err, state.ErrFenced), status.Code(err))
	// Output:
	// value:5 <nil>
	// value:5 <nil>
	// value:10 <nil>
	// true Unavailable
}
