// Package callback runs functions of others in goroutines of ours. Such a function may panic, or leave its goroutine
// by runtime.Goexit, as t.FailNow does in tests: without care the goroutine is gone then, and with it what it was to
// do next, and nobody hears of it.
package callback

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrExited is the error of a function that has left its goroutine by runtime.Goexit.
var ErrExited = errors.New("it left its goroutine (runtime.Goexit)")

// PanicError is the error of a function that has panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error is what it panicked with.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is what it panicked with, if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Stack is where the function of that error panicked, for the log; "" if it did not.
func Stack(err error) string {
	if p, ok := errors.AsType[*PanicError](err); ok {
		return string(p.Stack)
	}
	return ""
}

// Run runs f in a goroutine of its own, waits for its end, and returns what f returned: a *PanicError if it panicked,
// ErrExited if it left.
func Run(f func() error) error {
	return run(f, func(err *error) {
		if v := recover(); v != nil {
			*err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	})
}

// Finish is Run for what may not fail unseen: a panic ends the process.
func Finish(f func()) error {
	return run(func() error { f(); return nil }, func(*error) {})
}

// Within is Run that waits no longer than ctx: f may go on then.
func Within(ctx context.Context, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- Run(f) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func run(f func() error, caught func(*error)) error {
	ended := make(chan error, 1)
	go func() {
		err := ErrExited
		defer func() { ended <- err }()
		defer caught(&err)
		err = f()
	}()
	return <-ended
}
