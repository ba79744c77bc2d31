// Package goverse is the root of the module and has no code. See package cluster for the library, cmd/goversed
// for the daemon, and README.md for both.
//
// It promises nothing; each package documents what it does not promise.
package goverse
