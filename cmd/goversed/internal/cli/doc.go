// Package cli holds the parts that goversed's commands share: flags that can be set by environment variables and by a
// file, help that shows them by groups, errors of one line with an exit code, and the time after which a signal counts
// as a second one.
//
// Not promised: it serves goversed's command line alone, and may change with it.
package cli
