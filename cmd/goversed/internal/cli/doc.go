// Package cli is what goversed's commands share: flags that are environment
// variables too, errors of one line with an exit code, and when a second signal counts as one.
//
// Not promised: anything about other programs' flags. The rules here are those of
// goversed's own command line.
package cli
