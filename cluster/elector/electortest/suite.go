// Package electortest is the conformance suite of lease stores. It checks that a store does all that
// [elector.LeaseStore] requires, whatever keeps its record. A store that passes lets one candidate win a
// vacancy.
//
// Not promised: the suite does not check how a store behaves when its database fails over or a request is
// delayed. The former concerns the operator of the database; the elector handles the latter.
//
// Experimental: the API of this package may change in any minor release.
package electortest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goverse/goverse/cluster/elector"
)

const (
	patience       = 30 * time.Second
	signalPatience = 10 * time.Second // for one signal of a watch
)

// Run checks the stores that open returns. Each must be without a record and safe for concurrent use. open may
// skip the test. Stores that cannot be watched skip that check.
func Run(t *testing.T, open func(t *testing.T) elector.LeaseStore) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			switch err := c.check(ctx, open(t)); {
			case errors.Is(err, errNoWatch):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// check checks one requirement. It returns an error that describes how the store deviates from it.
type check struct {
	name  string
	check func(ctx context.Context, store elector.LeaseStore) error
}

var checks = []check{
	{"there is no record at first", checkNoRecord},
	{"what is written is read", checkRoundTrip},
	{"a record is created once", checkCreatedOnce},
	{"a version is replaced once", checkReplacedOnce},
	{"no version comes again", checkNewVersions},
	{"one of many wins a vacancy", checkOneWins},
	{"one of many creates the record", checkOneCreates},
	{"every increment counts", checkIncrements},
	{"a context that ended is honoured", checkContextEnded},
	{"a watch reports", checkWatch},
}
