package logtext

import "strings"

// OneLine returns the text of err in one line. Joined errors and those of databases have several lines.
func OneLine(err error) string {
	return strings.NewReplacer("\n\t", " ", "\n", "; ").Replace(strings.TrimSpace(err.Error()))
}
