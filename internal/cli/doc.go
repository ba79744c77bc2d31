// Package cli is what goversed's commands share: flags that are environment
// variables too, the flags that say where etcd is, and errors of one line with an
// exit code.
//
// Not promised: anything about other programs' flags. The rules here are those of
// goversed's own command line.
package cli
