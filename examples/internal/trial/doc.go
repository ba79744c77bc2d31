// Package trial helps the tests of the examples: it starts the example as separate processes, stops them in
// order, and runs functions meanwhile.
//
// Not promised: anything on systems without signals. The package is for Unix.
package trial
