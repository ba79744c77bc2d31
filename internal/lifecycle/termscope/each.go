package termscope

import (
	"context"
	"errors"

	"github.com/goverse/goverse/internal/lifecycle"
)

// LeadEach runs fn once in every term that lead leads, until ctx ends: the error is then the cause of ctx. If fn
// returns nil or an error that matches ErrTermOver, LeadEach waits for the end of the term and then leads the next
// one. It returns any other error of fn, and any error with which lead returned without running fn, but for
// ErrTermOver.
//
// lead waits for a term and runs the given function once; its error matches ErrTermOver if the term ended meanwhile.
func LeadEach[T any](ctx context.Context, lead func(context.Context, func(context.Context, T) error) error,
	fn func(context.Context, T) error) error {
	for {
		err := lead(ctx, func(term context.Context, t T) error {
			if err := fn(term, t); err != nil && !errors.Is(err, lifecycle.ErrTermOver) {
				return err
			}
			// One call a term: otherwise a fn that returns early would be called again and again.
			<-term.Done()
			return term.Err()
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, lifecycle.ErrTermOver):
			return err
		}
	}
}
