package once

import "time"

// State is the state of an effect.
type State string

// The states of an effect.
const (
	// Running means that an attempt is in progress as far as etcd knows: the lease of its session is alive.
	Running State = "running"
	// Unknown means that the attempt ended, by a crash or otherwise, without recording whether the effect took
	// place. It lasts until Resolve records the outcome.
	Unknown State = "unknown"
	// Done means that the effect took place.
	Done State = "done"
	// Failed means that the effect did not take place. The next call runs it again.
	Failed State = "failed"
	// Unreadable means that the mark was not written by Goverse. Once fails with an error that names the key.
	Unreadable State = "unreadable"
)

// Standing describes the state of one effect, and the attempt that it belongs to.
type Standing struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Attempt is the attempt's number from 1, Token its fencing token, and By the node that made it.
	Attempt int    `json:"attempt"`
	Token   int64  `json:"token"`
	By      string `json:"by"`
	// At is the time at which the state was written, or a running attempt began, by the writer's clock. It is
	// zero if the writer's version did not record it.
	At time.Time `json:"at"`
	// Value is the value that the effect returned.
	Value []byte `json:"value"`
	// Dropped is the length in bytes of a value that was too long to store; Value is empty then.
	Dropped int `json:"dropped"`
	// Error is the reason why the effect failed, or why its mark cannot be read.
	Error string `json:"error"`
	// Resolved names the node that resolved the outcome, "" if the attempt itself recorded it.
	Resolved string `json:"resolved"`
	// Retention is the time for which the nodes that run this effect remember its outcome, 0 if unknown. A
	// program that resolves the outcome should remember it for as long.
	Retention time.Duration `json:"retention_ns"`
}

// Query selects the effects that [Registry.List] returns. The zero value selects all.
type Query struct {
	// After excludes effects up to this name, in List's order.
	After string
	// Limit is the maximum number of effects to return; 0 means no limit.
	Limit int
	// Unknown restricts the list to effects with an unknown outcome.
	Unknown bool
}
