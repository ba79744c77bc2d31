package state

import "strings"

// Events returns the prefix of the event log, with its slash. It lies outside the range that every node
// watches.
func (k Keys) Events() string { return k.prefix + "/events/" }

// Event returns the key of the event with that id.
func (k Keys) Event(id string) string { return k.Events() + id }

// EventID returns the id of the event at key. ok is false for another key.
func (k Keys) EventID(key string) (string, bool) {
	id, ok := strings.CutPrefix(key, k.Events())
	return id, ok && id != ""
}
