package claims

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/internal/wait"
)

// queuesChannel is the channel on which changes of observed queues are notified.
const queuesChannel = "goverse_queues"

// Entry is one claim in a queue.
type Entry struct {
	Owner   string // of its session
	Session int64
	Token   int64 // 0 unless it is granted
	Shared  bool
}

// selectEntries selects the names and the entries of claims, for readEntries.
const selectEntries = `SELECT c.name, c.session, coalesce(c.token, 0), c.shared, s.owner
	FROM {{schema}}.claim c JOIN {{schema}}.session s ON s.id = c.session `

// readEntries calls f with each row of selectEntries.
func readEntries(rows pgx.Rows, f func(name string, e Entry)) error {
	var name string
	var e Entry
	_, err := pgx.ForEachRow(rows, []any{&name, &e.Session, &e.Token, &e.Shared, &e.Owner}, func() error {
		f(name, e)
		return nil
	})
	return err
}

// queue is the state of a name that is followed. Keeper.mu guards it.
type queue struct {
	entries   []Entry
	followers []*Follower
}

// Follower receives the changes of a queue.
type Follower struct {
	// C receives after a change. A first signal is there from the start.
	C <-chan struct{}

	k      *Keeper
	name   string
	signal wait.Signal
}

// Follow follows the queue of a name. Close ends it.
func (k *Keeper) Follow(name string) *Follower {
	f := &Follower{k: k, name: EscapeName(name), signal: wait.NewSignal()}
	f.C = f.signal
	f.signal.Send()
	k.mu.Lock()
	q := k.queues[f.name]
	if q == nil {
		q = &queue{}
		k.queues[f.name] = q
	}
	q.followers = append(q.followers, f)
	k.mu.Unlock()
	k.requestRead(f.name)
	return f
}

// Close ends the follower.
func (f *Follower) Close() {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	q := f.k.queues[f.name]
	q.followers = slices.DeleteFunc(q.followers, func(other *Follower) bool { return other == f })
	if len(q.followers) == 0 {
		delete(f.k.queues, f.name)
	}
}

// Entries returns the claims in the queue as last read, in order. The caller must not modify them.
func (f *Follower) Entries() []Entry {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if q := f.k.queues[f.name]; q != nil {
		return q.entries
	}
	return nil
}

// requestRead makes the watcher read a queue, if it is followed.
func (k *Keeper) requestRead(stored string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queues[stored] != nil {
		k.toRead[stored] = true
		k.reads.Send()
	}
}

// requestedReads returns the names of the queues to read.
func (k *Keeper) requestedReads() (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.toRead {
		names = append(names, name)
	}
	clear(k.toRead)
	return names
}

// followedNames returns the names of all queues that are followed.
func (k *Keeper) followedNames() (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.queues {
		names = append(names, name)
	}
	return names
}

// readQueues reads queues, and signals those that have changed.
func (w *watcher) readQueues(names []string) error {
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.s.ctx, w.s.k.cfg.requestTimeout())
	defer cancel()
	w.readAt = time.Now()
	rows, err := w.conn.Query(ctx, w.s.k.sql.queues, names)
	if err != nil {
		return err
	}
	read := map[string][]Entry{}
	w.lastRead = 0
	err = readEntries(rows, func(name string, e Entry) {
		read[name] = append(read[name], e)
		w.lastRead++
	})
	if err == nil {
		w.s.k.recordQueues(names, read)
	}
	return err
}

// recordQueues records the queues of these names.
func (k *Keeper) recordQueues(names []string, read map[string][]Entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		q := k.queues[name]
		if q == nil || slices.Equal(q.entries, read[name]) {
			continue
		}
		q.entries = read[name]
		for _, f := range q.followers {
			f.signal.Send()
		}
	}
}
