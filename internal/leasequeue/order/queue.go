// Package order models one lease queue as one process knows it, in immutable values: the order of the entries,
// the holders, and the entry that others let pass. It is pure; package leasequeue keeps the values current.
//
// Entries are ordered by CreateRevision: first come, first served. An exclusive entry holds the lock while it
// is first. A shared entry holds it while no exclusive entry is ahead. No entry passes another one. If one is
// preferred, the entries ahead of it move to the tail by themselves.
//
// Not promised: freshness. An entry that is first in a value may be gone from etcd; only its session's deadline
// excludes that. But an entry that was first stays first while it exists, because all others come behind it.
package order

import (
	"cmp"
	"slices"
)

// Entry describes one entry of a queue.
type Entry struct {
	Key            string
	CreateRevision int64 // CreateRevision of the key
	Shared         bool
	Priority       int  // see Queue.Target
	Foreign        bool // not written by Goverse
	Value          string
	Lease          int64 // id of the lease that the key is attached to
}

// Queue is a queue as known at one revision. It is immutable. The zero value is an unknown queue.
type Queue struct {
	revision int64
	entries  []Entry // by CreateRevision
}

// compareEntries orders entries by CreateRevision. Only an out-of-band change can create two at one revision.
func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.CreateRevision, b.CreateRevision), cmp.Compare(a.Key, b.Key))
}

// ApplyRead returns the queue as a linearizable read at revision found it. It returns q if q is newer.
func (q Queue) ApplyRead(revision int64, entries []Entry) Queue {
	if revision < q.revision {
		return q
	}
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, compareEntries)
	return Queue{revision: revision, entries: sorted}
}

// Newer returns the one that is known at the later revision, and other if both are equal.
func (q Queue) Newer(other Queue) Queue {
	if other.revision < q.revision {
		return q
	}
	return other
}

// Known reports whether the queue was ever read.
func (q Queue) Known() bool { return q.revision > 0 }

// Change is a put or a deletion of an entry at a revision.
type Change struct {
	Revision int64
	Deleted  bool
	Entry    Entry
}

// ApplyChanges returns the queue after the changes, which must be in order. Changes that are not newer than q have no
// effect.
func (q Queue) ApplyChanges(changes ...Change) Queue {
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
			i, _ := slices.BinarySearchFunc(entries, c.Entry, compareEntries)
			entries = slices.Insert(entries, i, c.Entry)
		}
	}
	q.entries = entries
	return q
}

// Put returns the queue after a put of the entry at revision.
func (q Queue) Put(revision int64, e Entry) Queue {
	return q.ApplyChanges(Change{Revision: revision, Entry: e})
}

// Delete returns the queue after the deletion of the entry at revision.
func (q Queue) Delete(revision int64, key string) Queue {
	return q.ApplyChanges(Change{Revision: revision, Deleted: true, Entry: Entry{Key: key}})
}

// AdvanceTo returns the queue after all events up to revision were reported.
func (q Queue) AdvanceTo(revision int64) Queue {
	q.revision = max(q.revision, revision)
	return q
}

// HasEntry reports whether an entry stands with that key and CreateRevision.
func (q Queue) HasEntry(key string, create int64) bool {
	_, has := slices.BinarySearchFunc(q.entries, Entry{Key: key, CreateRevision: create}, compareEntries)
	return has
}

// Holders returns the entries that hold the lock, in order.
func (q Queue) Holders() []Entry {
	sharing := slices.IndexFunc(q.entries, func(x Entry) bool { return !x.Shared })
	if sharing < 0 {
		return q.entries
	}
	return q.entries[:max(sharing, 1)]
}

// HoldsLock reports whether the entry holds the lock.
func (q Queue) HoldsLock(key string) bool {
	return slices.ContainsFunc(q.Holders(), func(x Entry) bool { return x.Key == key })
}

// Entries returns all entries in order. The caller must not change them.
func (q Queue) Entries() []Entry { return q.entries }

func (q Queue) indexOf(key string) int {
	return slices.IndexFunc(q.entries, func(x Entry) bool { return x.Key == key })
}

// KnownAt reports whether the queue is known at revision or later.
func (q Queue) KnownAt(revision int64) bool { return q.revision >= revision }
