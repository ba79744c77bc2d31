// Package goverse is the module's root and holds no code: see package cluster
// for the library, cmd/goversed for the daemon, and README.md for both.
//
// It promises nothing by itself; each package says what it does not promise.
package goverse
