// Package order is what one process knows of one lease queue, as values: who is first,
// and whom the others let pass. No clock, no goroutine, no I/O; package leasequeue keeps
// it current.
//
// The entries stand in the order of their CreateRevision: first come, first served. An
// exclusive entry holds the lock while it is the first of all; a shared one while no
// exclusive one stands before it. Nobody passes another one: where one is preferred, those
// before it go to the tail by themselves.
//
// Not promised: that what is known is current. An entry that is first by an old state may be
// gone by now, and only its session's deadline says that it is not; but an entry that was
// first stays so while it stands, for all others come behind.
package order

import (
	"cmp"
	"slices"
)

// Entry is one place in a queue.
type Entry struct {
	Key      string
	Create   int64 // CreateRevision
	Shared   bool
	Priority int  // see Queue.Target
	Foreign  bool // not written by a process of ours
	Value    string
	Lease    int64 // that its key is on
}

// Queue is what is known of a queue at a revision. It is immutable; the zero value knows
// nothing.
type Queue struct {
	revision int64
	entries  []Entry // by Create
}

// compare reports who comes first. Only an out-of-band change can create two at once.
func compare(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Create, b.Create), cmp.Compare(a.Key, b.Key))
}

// Read is the queue as a linearizable read found it at revision. An older one than is known
// already changes nothing.
func (q Queue) Read(revision int64, entries []Entry) Queue {
	if revision < q.revision {
		return q
	}
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, compare)
	return Queue{revision: revision, entries: sorted}
}

// Newest is that of two that is known as of a later revision; q, if there is none.
func (q Queue) Newest(other Queue) Queue {
	if other.revision < q.revision {
		return q
	}
	return other
}

// Known reports whether the queue was ever read.
func (q Queue) Known() bool { return q.revision > 0 }

// Change is what happened to an entry at a revision: it was written, or deleted.
type Change struct {
	Revision int64
	Deleted  bool
	Entry    Entry
}

// Fold is the queue after these changes, which are in their order. Those that are older than what is known
// change nothing.
func (q Queue) Fold(changes ...Change) Queue {
	last := map[string]Change{}
	for _, c := range changes {
		if c.Revision > q.revision {
			last[c.Entry.Key] = c
		}
	}
	if len(last) == 0 {
		return q
	}
	entries := make([]Entry, 0, len(q.entries)+len(last))
	for _, e := range q.entries {
		if _, changed := last[e.Key]; !changed {
			entries = append(entries, e)
		}
	}
	for _, c := range last {
		if !c.Deleted {
			i, _ := slices.BinarySearchFunc(entries, c.Entry, compare)
			entries = slices.Insert(entries, i, c.Entry)
		}
	}
	q.entries = entries
	return q
}

// Put is the queue after an entry was written at revision.
func (q Queue) Put(revision int64, e Entry) Queue {
	return q.Fold(Change{Revision: revision, Entry: e})
}

// Delete is the queue after an entry was deleted at revision.
func (q Queue) Delete(revision int64, key string) Queue {
	return q.Fold(Change{Revision: revision, Deleted: true, Entry: Entry{Key: key}})
}

// Reached is the queue after all events up to revision were reported.
func (q Queue) Reached(revision int64) Queue {
	q.revision = max(q.revision, revision)
	return q
}

// Has reports whether the entry stands that was created at that revision.
func (q Queue) Has(key string, create int64) bool {
	_, has := slices.BinarySearchFunc(q.entries, Entry{Key: key, Create: create}, compare)
	return has
}

// Holders are the entries that hold the lock, the first first.
func (q Queue) Holders() []Entry {
	sharing := slices.IndexFunc(q.entries, func(x Entry) bool { return !x.Shared })
	if sharing < 0 {
		return q.entries
	}
	return q.entries[:max(sharing, 1)]
}

// Holds reports whether the entry holds the lock.
func (q Queue) Holds(key string) bool {
	return slices.ContainsFunc(q.Holders(), func(x Entry) bool { return x.Key == key })
}

// Entries are all that stand, the first first.
func (q Queue) Entries() []Entry { return q.entries }

func (q Queue) index(key string) int {
	return slices.IndexFunc(q.entries, func(x Entry) bool { return x.Key == key })
}

// After reports whether what is known is not older than revision.
func (q Queue) After(revision int64) bool { return q.revision >= revision }
