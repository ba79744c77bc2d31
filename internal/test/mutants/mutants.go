// Package mutants lists known bugs as small edits of the source. Tests switch them on one by one and show that
// each is found, because a checker that never finds anything proves nothing.
//
//	Mutant ──► a copy of the source in which all of them are switched off ──► go test -overlay
//	           (weave)                                                        GOVERSE_MUTANT=name
//
// A function that mutants edit gets an additional body for each of them, in front of its own. The body runs if
// the environment variable GOVERSE_MUTANT names the mutant. One build therefore contains all mutants. Regular
// builds contain none, because the copies, and the package that reads the variable, exist only in the overlay.
//
// To add a mutant, enter it into the table of its subject. TestMutants of the packages that it names has to
// find it. The command try runs go test with one mutant in all packages under test.
//
// Not promised: that the list is complete.
package mutants

import "slices"

// Variable is the environment variable that names the active mutant in a process built with the overlay.
const Variable = "GOVERSE_MUTANT"

// Mutant is a known bug.
type Mutant struct {
	Name string
	What string   // the error that it introduces, in one line
	In   []string // packages with a TestMutants that has to find it
	Test string   // the test that it fails; "" for TestSchedules, which prints the failed seed
	// Seed is the first seed of TestSchedules, 0 for its usual one. It is for a mutant that few schedules find, and
	// spares those that are known not to find it. A change of the schedules may cost that time again, but no more.
	Seed  uint64
	Edits []Edit
}

// Edit is one change that a mutant makes within a function.
type Edit struct {
	File     string // relative to the root of the module
	Old, New string // Old must occur in the file exactly once
}

// The packages with a TestMutants.
const (
	simulation = "internal/test/simulation"
	sessions   = "internal/etcd/etcdsession"
	queues     = "internal/leasequeue"
	hosts      = "internal/objects/host"
	processors = "internal/test/processorload"
	silence    = "internal/crash/silence"
)

// All returns all mutants.
func All() []Mutant {
	return slices.Concat(ofSessions, ofElections, ofCrashDetection, ofSilence, ofMirrors, ofShards, ofStops, ofObjects,
		ofLeaseQueues, ofProcessors)
}

// mutantsFor returns the mutants that a package has to find.
func mutantsFor(pkg string) (found []Mutant) {
	for _, m := range All() {
		if slices.Contains(m.In, pkg) {
			found = append(found, m)
		}
	}
	return found
}
