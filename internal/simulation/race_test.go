//go:build race

package simulation

// The race detector draws in which order Go runs what is to run at one instant.
const ordered = false
