// Package trial is what the tests of the examples have in common: they start the example as
// processes of its own, end those in order, and do something meanwhile.
//
// Not promised: that it works where there are no signals; it is for Unix.
package trial
