// Package statetest is the conformance suite of stores. It checks that a store does all that [state.Store]
// requires, whatever keeps its records. With a store that passes, a former owner of an object stores nothing,
// and a call with a request id takes effect once.
//
//	func TestConforms(t *testing.T) {
//		statetest.Run(t, func(t *testing.T) state.Store { return newStore(t) })
//	}
//
// Not promised: the suite does not check that replies expire, which would take a clock, nor how a store behaves
// when its database fails over.
//
// Experimental: the API of this package may change in any minor release.
package statetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goverse/goverse/cluster/objects/state"
)

const patience = time.Minute

// Run checks the stores that newStore returns. Each must be without records of the objects of earlier ones and
// must accept states of 256 KiB. newStore may skip the test.
func Run(t *testing.T, newStore func(t *testing.T) state.Store) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := c.check(ctx, newStore(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// check checks one requirement. It returns an error that describes how the store deviates from it.
type check struct {
	name  string
	check func(ctx context.Context, store state.Store) error
}

var checks = []check{
	{"there is nothing at first", checkNothing},
	{"what is saved is loaded", checkRoundTrip},
	{"a smaller epoch is refused", checkFenced},
	{"a smaller epoch is refused its first save", checkFencedFirst},
	{"a smaller epoch cannot claim", checkClaims},
	{"a claim ends the versions before it", checkReclaimed},
	{"a version is replaced once", checkReplacedOnce},
	{"no version comes again", checkNewVersions},
	{"what is refused changes nothing", checkNothingChanged},
	{"objects of any name", checkNames},
	{"replies are stored with the state", checkReplies},
	{"request ids of any kind", checkRequestIDs},
	{"what is deleted is gone", checkDeleted},
	{"a deleted object stays fenced", checkDeletedFenced},
	{"slices are not shared", checkSlicesApart},
	{"a context that ended is honoured", checkContextEnded},
	{"one of many saves wins", checkOneWins},
	{"the largest epoch wins", checkLargestWins},
	{"calls that are repeated take effect once", checkOnceEach},
}

var testRef = state.Ref{Service: "test.Service", Key: "it"}

// expectError returns an error unless got matches want.
func expectError(what string, got, want error) error {
	switch {
	case want == nil && got != nil:
		return fmt.Errorf("%s: %w", what, got)
	case !errors.Is(got, want):
		return fmt.Errorf("%s: the error is %v, not %q", what, got, want)
	}
	return nil
}

// expectRecord returns an error unless the record has the given value; nil means that there is no state.
func expectRecord(what string, r state.Record, value []byte) error {
	switch {
	case r.Found != (value != nil):
		return fmt.Errorf("%s: Found is %v", what, r.Found)
	case !bytes.Equal(r.Value, value):
		return fmt.Errorf("%s: the value is %.40q, not %.40q", what, r.Value, value)
	}
	return nil
}

// expectLoad claims the object and compares its value.
func expectLoad(ctx context.Context, store state.Store, ref state.Ref, epoch int64, value []byte) (state.Record,
	error) {
	r, err := store.Load(ctx, ref, epoch)
	if err != nil {
		return r, fmt.Errorf("the Load of %v for epoch %d: %w", ref, epoch, err)
	}
	return r, expectRecord(fmt.Sprintf("Load of %v for epoch %d", ref, epoch), r, value)
}

func bytesOf(s string) []byte { return []byte(s) }
