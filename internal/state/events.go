package state

import (
	"strings"

	"github.com/goverse/goverse/cluster/event"
)

// Events returns the prefix of the event log, with its slash. It lies outside the range that every node
// watches.
func (k Keys) Events() string { return k.prefix + "/events/" }

// ProgramEvents returns the prefix of the events of programs, which are part of the log. The id of an event begins with
// its type.
func (k Keys) ProgramEvents() string { return k.Events() + event.ProgramPrefix }

// CommandEvents returns the prefix of the events of operators' requests, which are part of the log.
func (k Keys) CommandEvents() string { return k.Events() + "processor_" }

// Event returns the key of the event with that id.
func (k Keys) Event(id string) string { return k.Events() + id }

// EventID returns the id of the event at key. ok is false for another key.
func (k Keys) EventID(key string) (string, bool) {
	id, ok := strings.CutPrefix(key, k.Events())
	return id, ok && id != ""
}
