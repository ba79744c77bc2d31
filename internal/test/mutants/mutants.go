// Package mutants has the known ways to get this wrong, as small changes of the source. Tests switch them on
// one by one and show that each is found: a checker that never finds anything proves nothing.
//
//	Mutant ──► a copy of the source in which all of them are switched off ──► go test -overlay
//	           (weave)                                                        GOVERSE_MUTANT=name
//
// A function that mutants change gets one more body for each of them, before its own, which runs where the
// environment variable GOVERSE_MUTANT names the mutant. So one build has all mutants, and what is no test
// knows of none: the copies, and the package that reads the variable, exist in the overlay alone.
//
// To add one, write it into the table of its subject; TestMutants of the packages that it names has to find it.
// Command try runs go test with one mutant in everything that is tested.
//
// Not promised: that these are all the ways.
package mutants

import "slices"

// Variable names the mutant that is on in a process of a build with the overlay.
const Variable = "GOVERSE_MUTANT"

// Mutant is a known bug.
type Mutant struct {
	Name  string
	What  string   // what it gets wrong, in one line
	In    []string // the packages whose TestMutants has to find it
	Test  string   // the test that fails with it; "": TestSchedules, which prints the seed that failed
	Edits []Edit
}

// Edit is one change that a mutant makes within a function.
type Edit struct {
	File     string // from the root of the module
	Old, New string // Old is in the file exactly once
}

// The packages whose TestMutants finds mutants.
const (
	simulation = "internal/test/simulation"
	sessions   = "internal/etcd/etcdsession"
	queues     = "internal/leasequeue"
	hosts      = "internal/objects/host"
)

// All are the mutants there are.
func All() []Mutant {
	return slices.Concat(ofSessions, ofElections, ofCrashDetection, ofMirrors, ofShards, ofObjects, ofLeaseQueues)
}

// in are those that a package has to find.
func in(pkg string) (found []Mutant) {
	for _, m := range All() {
		if slices.Contains(m.In, pkg) {
			found = append(found, m)
		}
	}
	return found
}
