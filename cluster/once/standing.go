package once

import "time"

// State is how an effect stands.
type State string

// The states of an effect.
const (
	// Running: an attempt is under way, as far as etcd knows: its session's lease lives.
	Running State = "running"
	// Unknown: the attempt has left, by a crash or otherwise, and has not said whether the effect
	// took place. It stays so until somebody resolves it.
	Unknown State = "unknown"
	// Done: the effect took place.
	Done State = "done"
	// Failed: it did not, and the next one to ask runs it again.
	Failed State = "failed"
	// Unreadable: its mark is not one of ours. Once fails with an error that names the key.
	Unreadable State = "unreadable"
)

// Standing is how one effect stands, and of which attempt that is.
type Standing struct {
	Name  string
	State State
	// Attempt counts from 1 up, Token is its fencing token, and By who made it.
	Attempt int
	Token   int64
	By      string
	// At is when it came to be so, or began, by the clock of who wrote it; zero if it was written
	// by a version that did not say.
	At time.Time
	// Value is what the effect returned.
	Value []byte
	// Dropped is the length of a value that was too long to keep, in bytes; Value is empty then.
	Dropped int
	// Error is why it failed, or why its mark cannot be read.
	Error string
	// Resolved is who said what is true, "" if the attempt itself did.
	Resolved string
	// Retention is for how long those who try the effect remember it, 0 if it is not known. Who
	// resolves it should remember it for as long.
	Retention time.Duration
}

// Query says which effects Effects.List of package cluster is to find.
type Query struct {
	// After leaves out the effects up to that name, in List's order.
	After string
	// Limit is how many to find at most, from 1 up.
	Limit int
	// Unknown: only those whose outcome is unknown.
	Unknown bool
}
