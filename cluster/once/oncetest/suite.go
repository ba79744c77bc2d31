// Package oncetest is the conformance suite for every implementation of once.Registry.
//
//	func TestConforms(t *testing.T) {
//		oncetest.Run(t, func(t *testing.T) (a, b once.Registry) { return open(t), open(t) })
//	}
//
// # What is not promised
//
// The suite does not test faults of the store that keeps the marks, nor the retention. Each implementation tests its
// own.
//
// Experimental: the API of this package may change in any minor release.
package oncetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/once"
)

const patience = time.Minute

// Run checks the registries that open returns: two views of the same effects, as of two processes. They may be the
// same, and may be returned again for each check: the checks use different names.
func Run(t *testing.T, open func(t *testing.T) (a, b once.Registry)) {
	for _, test := range []struct {
		name string
		f    func(s *suite)
	}{
		{"of many attempts one runs", checkMany},
		{"the result is remembered", checkRemembered},
		{"an error is recorded", checkFailure},
		{"a panic leaves the outcome unknown", checkUnknown},
		{"resolved as done", checkResolvedDone},
		{"resolved as failed", checkResolvedFailed},
		{"nothing to resolve", checkNotUnknown},
		{"a running attempt", checkRunning},
		{"contexts", checkContexts},
		{"values", checkValues},
		{"names", checkNames},
		{"arguments", checkArguments},
		{"list", checkList},
		{"list of unknown effects", checkListUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s := &suite{T: t, ctx: ctx}
			s.a, s.b = open(t)
			test.f(s)
		})
	}
}

type suite struct {
	*testing.T
	ctx  context.Context
	a, b once.Registry
}

var errRefused = errors.New("the mail server is away")

// counts returns an effect that counts its runs.
func counts(n *atomic.Int32, value string) func(context.Context, int64) ([]byte, error) {
	return func(context.Context, int64) ([]byte, error) {
		n.Add(1)
		return []byte(value), nil
	}
}

// never returns an effect that must not run.
func (s *suite) never(context.Context, int64) ([]byte, error) {
	s.Error("it must not run")
	return nil, errors.New("it must not run")
}

// run runs an effect that returns a value.
func (s *suite) run(r once.Registry, name, value string) once.Result {
	s.Helper()
	var n atomic.Int32
	result, err := r.Once(s.ctx, name, counts(&n, value))
	require.NoError(s, err)
	require.True(s, result.Ran)
	require.EqualValues(s, 1, n.Load())
	return result
}

// leaveUnknown leaves an attempt with an unknown outcome.
func (s *suite) leaveUnknown(r once.Registry, name string) (token int64) {
	s.Helper()
	require.PanicsWithValue(s, "oops", func() {
		_, _ = r.Once(s.ctx, name, func(_ context.Context, attempt int64) ([]byte, error) {
			token = attempt
			panic("oops")
		})
	})
	return token
}

// look reads the state of an effect.
func (s *suite) look(r once.Registry, name string) once.Standing {
	s.Helper()
	found, err := r.Look(s.ctx, name)
	require.NoError(s, err)
	require.Equal(s, name, found.Name)
	return found
}

// requireUnknown checks the error of a call that finds an attempt with an unknown outcome.
func (s *suite) requireUnknown(err error, name string, attempt int, token int64) {
	s.Helper()
	require.ErrorIs(s, err, once.ErrUnknown)
	unknown, ok := errors.AsType[*once.UnknownError](err)
	require.True(s, ok, "%v", err)
	require.Equal(s, name, unknown.Name)
	require.Equal(s, attempt, unknown.Attempt)
	require.Equal(s, token, unknown.Token)
	require.NotEmpty(s, unknown.By)
}
