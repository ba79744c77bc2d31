package wait

import (
	"context"
	"errors"
)

// EachTerm runs fn once in every term that lead leads, until ctx ends: the error is then the cause of ctx. If fn
// returns nil or an error that matches termOver, EachTerm waits for the end of the term and then leads the next one.
// It returns any other error of fn, and any error with which lead returned without running fn, but for termOver.
//
// lead waits for a term and runs the given function once; its error matches termOver if the term ended meanwhile.
func EachTerm[T any](ctx context.Context, termOver error,
	lead func(context.Context, func(context.Context, T) error) error, fn func(context.Context, T) error) error {
	for {
		err := lead(ctx, func(term context.Context, t T) error {
			if err := fn(term, t); err != nil && !errors.Is(err, termOver) {
				return err
			}
			// One call a term: otherwise a fn that returns early would be called again and again.
			<-term.Done()
			return term.Err()
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, termOver):
			return err
		}
	}
}
