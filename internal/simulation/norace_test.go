//go:build !race

package simulation

const ordered = true
