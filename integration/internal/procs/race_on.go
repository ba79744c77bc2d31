//go:build unix && race

package procs

// raceEnabled: a test that looks for races wants them found in the processes too.
const raceEnabled = true
