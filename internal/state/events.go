package state

import "strings"

// Events is the prefix of the event log, with its slash. It lies outside the range that every node watches.
func (k Keys) Events() string { return k.prefix + "/events/" }

// Event is the key of the event with that id.
func (k Keys) Event(id string) string { return k.Events() + id }

// EventID is the id of the event at key.
func (k Keys) EventID(key string) (string, bool) {
	id, ok := strings.CutPrefix(key, k.Events())
	return id, ok && id != ""
}
