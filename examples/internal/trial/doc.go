// Package trial helps the tests of the examples: it starts the example as separate processes, stops them in
// order, and runs functions meanwhile.
//
// Not promised: the package does not work on systems without signals. It is for Unix.
package trial
