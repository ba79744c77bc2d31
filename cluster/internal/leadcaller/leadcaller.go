// Package leadcaller tells a leader lock which processor or automation waits for it, in the context of Lead.
//
// Not promised: a leader lock may ignore its caller.
package leadcaller

import "context"

// Caller identifies a caller of Lead; the zero value means none.
type Caller struct {
	// Name is that of the processor or automation.
	Name string
	// Report receives the reasons for waiting. It may be nil. It must not block.
	Report func(error)
}

type key struct{}

// With returns a context for Lead that holds the caller.
func With(ctx context.Context, c Caller) context.Context { return context.WithValue(ctx, key{}, c) }

// From returns the caller that ctx holds.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(key{}).(Caller)
	return c
}
