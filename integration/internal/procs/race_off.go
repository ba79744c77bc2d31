//go:build unix && !race

package procs

const raceEnabled = false
