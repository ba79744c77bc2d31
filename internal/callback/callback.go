// Package callback runs functions that come from outside Goverse, such as the user's, in goroutines of its own.
// Such a function may panic, or end its goroutine with runtime.Goexit, as t.FailNow does in tests. Run in a
// goroutine of Goverse's, it would silently take the rest of that goroutine's work with it. Here both become
// errors.
//
// Not promised: a function that does not return is not stopped.
package callback

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrExited is returned for a function that ended its goroutine with runtime.Goexit.
var ErrExited = errors.New("it left its goroutine (runtime.Goexit)")

// PanicError is returned for a function that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic as text.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// panicStack returns the stack of the panic that err reports, for the log; "" if err reports none.
func panicStack(err error) string {
	if p, ok := errors.AsType[*PanicError](err); ok {
		return string(p.Stack)
	}
	return ""
}

// Run runs f in a goroutine of its own, waits until it ends, and returns the error of f: a *PanicError if f
// panicked, ErrExited if it ended its goroutine.
func Run(f func() error) error {
	return runIsolated(f, func(err *error) {
		if v := recover(); v != nil {
			*err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	})
}

// RunUnrecovered runs f like [Run], but lets a panic end the process. It is for functions that must not fail
// unnoticed.
func RunUnrecovered(f func()) error {
	return runIsolated(func() error { f(); return nil }, func(*error) {})
}

// RunWithin runs f like [Run], but returns the cause of ctx when ctx ends first. f may continue to run then.
func RunWithin(ctx context.Context, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- Run(f) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func runIsolated(f func() error, caught func(*error)) error {
	ended := make(chan error, 1)
	go func() {
		err := ErrExited
		defer func() { ended <- err }()
		defer caught(&err)
		err = f()
	}()
	return <-ended
}
