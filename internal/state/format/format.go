// Package format numbers the forms of what Goverse stores and sends, so that releases can work in one cluster.
//
// Format 1 is that of all releases so far. A record in etcd states its format in the field "format", a shard map in
// "version", and a message between nodes in the header of package formatheader. What states none is in format 1. A
// release reads a range of formats, from Oldest to Newest, and its nodes publish that range in their member records.
//
//   - A reader ignores fields that it does not know. Where it rewrites a record of another process, it writes
//     them back; see [Decode].
//   - A reader refuses a newer format with an [Error], and never deletes the record.
//   - A cluster may use the format that all its members read: the oldest release in it decides. Package state finds it.
//   - A process that does not read the format in use does not join.
//
// All functions are pure.
package format

import (
	"errors"
	"fmt"
)

const (
	// First is the format of what states none.
	First = 1
	// Oldest and Newest are the oldest and the newest format that this release reads.
	Oldest, Newest = First, 1
)

// ErrFormat is matched by every [Error].
var ErrFormat = errors.New("a format that this release of Goverse does not read")

// Range is a range of formats, both ends included. The zero value means [First] alone, as in the records of members
// that publish no range.
type Range struct {
	Oldest int `json:"oldest"`
	Newest int `json:"newest"`
}

// Own returns the range that this release reads.
func Own() Range { return Range{Oldest, Newest} }

// OrFirst returns the range itself, or that of First alone for the zero value and for a range without formats.
func (r Range) OrFirst() Range {
	if r.Oldest < First || r.Newest < r.Oldest {
		return Range{First, First}
	}
	return r
}

// Contains reports whether f is in the range.
func (r Range) Contains(f int) bool { return r.Oldest <= f && f <= r.Newest }

// String returns "1" or "1 to 3".
func (r Range) String() string {
	if r.Oldest == r.Newest {
		return fmt.Sprint(r.Oldest)
	}
	return fmt.Sprintf("%d to %d", r.Oldest, r.Newest)
}

// Error reports a record, a message or a cluster in a format that this process does not read. It matches
// [ErrFormat].
type Error struct {
	// Subject names what is in the format, such as "the record /goverse/nodes/a".
	Subject string
	// Found is its format.
	Found int
	// Writer is the release that wrote it, if known.
	Writer string
	// Reads is the range that this process reads, and Release its release.
	Reads   Range
	Release string
}

// Check returns nil if the range contains the format found, and otherwise an [Error] about subject. writer is the
// release that wrote it, "" if unknown.
func (r Range) Check(subject string, found int, writer string) error {
	if r.Contains(found) {
		return nil
	}
	return &Error{Subject: subject, Found: found, Writer: writer, Reads: r, Release: Release()}
}

// Newer reports whether the format is newer than those that this process reads.
func (e *Error) Newer() bool { return e.Found > e.Reads.Newest }

// Error returns a text with both formats, both releases as far as they are known, and the remedy.
func (e *Error) Error() string {
	writer := ""
	if e.Writer != "" {
		writer = fmt.Sprintf(" (of Goverse %s)", e.Writer)
	}
	remedy := fmt.Sprintf("use a release of Goverse that reads format %d, and delete nothing", e.Found)
	if !e.Newer() {
		remedy = fmt.Sprintf("first upgrade all nodes to a release of Goverse that reads format %d too", e.Reads.Oldest)
	}
	formats := "format"
	if e.Reads.Oldest != e.Reads.Newest {
		formats = "formats"
	}
	return fmt.Sprintf("%s has format %d%s, and this process (Goverse %s) reads %s %v: %s", e.Subject, e.Found, writer,
		e.Release, formats, e.Reads, remedy)
}

// Unwrap returns ErrFormat.
func (e *Error) Unwrap() error { return ErrFormat }
