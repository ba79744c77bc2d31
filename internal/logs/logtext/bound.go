package logtext

import "strings"

// Bound returns the part of a text that a database can store: its first bytes, limit at most, without NUL, bytes that
// are not UTF-8, and half a character at the end.
func Bound(text string, limit int) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), limit)], ""), "\x00", "")
}
