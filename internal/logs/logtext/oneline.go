package logtext

import "strings"

// OneLine returns the text of err in one line. Joined errors have several lines, and so do a database's.
func OneLine(err error) string {
	return strings.NewReplacer("\n\t", " ", "\n", "; ").Replace(strings.TrimSpace(err.Error()))
}
