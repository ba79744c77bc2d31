// Package electortest is the conformance suite of lease stores: what every elector.LeaseStore
// has to do, whatever keeps its record. A store that passes lets one candidate win a vacancy.
//
// Not covered: what happens when a database fails over or a request is carried out late, which
// is for those who run the database, and for the elector.
package electortest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goverse/goverse/cluster/elector"
)

const patience = 30 * time.Second

// Run checks the stores that open returns. Each has to be without a record, and safe for
// concurrent use; open may have the test skip. What only an elector.LeaseWatcher can do is skipped for
// other stores.
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

// check is one thing that a store has to do; it returns what it did instead.
type check struct {
	name  string
	check func(ctx context.Context, store elector.LeaseStore) error
}

var checks = []check{
	{"there is no record at first", noRecord},
	{"what is written is read", roundTrip},
	{"a record is created once", createdOnce},
	{"a version is replaced once", replacedOnce},
	{"no version comes again", newVersions},
	{"one of many wins a vacancy", oneWins},
	{"one of many creates the record", oneCreates},
	{"every increment counts", increments},
	{"a context that ended is honoured", contextEnded},
	{"a watch reports", watched},
}
