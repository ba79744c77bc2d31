package logqueue

import (
	"fmt"
	"reflect"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// lineSize and argSize are the bytes that a line and an argument cost beside their text.
	lineSize, argSize = 160, 32
)

// captureArgs returns a copy of a line's arguments as they are now, because their owner may change them before they
// are written. It also returns their approximate size in bytes.
func captureArgs(args []any) ([]any, int) {
	size := lineSize + argSize*len(args)
	out := make([]any, len(args), len(args)+2) // room for the argument "delayed", which write may add
	for i, arg := range args {
		out[i] = captureValue(arg)
		switch v := out[i].(type) {
		case string:
			size += len(v)
		case capturedError:
			size += len(v.text)
		default:
			if r := reflect.ValueOf(v); r.Kind() == reflect.Slice {
				size += argSize * r.Len()
			}
		}
	}
	return out, size
}

// captureValue returns a value that always formats as arg does now.
func captureValue(arg any) any {
	switch v := arg.(type) {
	case nil, string, bool, int, int64, uint64, time.Duration, time.Time:
		return v
	case error:
		return capturedError{error: v, text: fmt.Sprint(v)}
	case hclog.Format:
		if len(v) == 0 {
			return ""
		}
		return fmt.Sprintf(fmt.Sprint(v[0]), v[1:]...)
	case fmt.Stringer:
		return fmt.Sprint(v)
	}
	r := reflect.ValueOf(arg)
	switch {
	case isImmutable(r.Kind()):
		return arg
	case r.Kind() == reflect.Slice && isImmutable(r.Type().Elem().Kind()):
		return reflect.AppendSlice(reflect.MakeSlice(r.Type(), 0, r.Len()), r).Interface()
	}
	return fmt.Sprintf("%+v", arg)
}

// isImmutable reports whether values of this kind are immutable.
func isImmutable(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Complex128 || k == reflect.String
}

// capturedError is an error with the text that it had when it was logged.
type capturedError struct {
	error
	text string
}

// Error implements error with that text.
func (e capturedError) Error() string { return e.text }

// Unwrap returns the error itself.
func (e capturedError) Unwrap() error { return e.error }
