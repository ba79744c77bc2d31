// Package oneline writes errors for the log, where an event has one line: joined errors have
// several, and so have a database's.
package oneline

import "strings"

// Of is the error's text in one line.
func Of(err error) string {
	return strings.NewReplacer("\n\t", " ", "\n", "; ").Replace(strings.TrimSpace(err.Error()))
}
