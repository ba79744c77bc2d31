package automation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/processor"
	"github.com/goverse/goverse/internal/wait"
)

// ListConfig configures a source over a function that lists items. List and Due are required.
type ListConfig[I any] struct {
	// List returns at most limit items that are to be done, with keys greater than after, ordered by key. Fewer than
	// limit items mean that there are no more. After the end, the list is read again from its beginning, with ""
	// for after. List may return items that were done a moment ago.
	List func(ctx context.Context, after string, limit int) ([]Item[I], error)
	// Due reports whether an item is still to be done. It is called when the item is claimed, because the list may
	// have been read before another process executed the item. It must see what an executor did before it returned.
	Due func(ctx context.Context, item Item[I]) (bool, error)
	// Locks excludes other processes while an item is executed, by a lock with the name NAME/KEY. It is a
	// Cluster.Locks, for example. If nil, nothing excludes them: then use the source only with a LeaderLock.
	Locks lock.LockRegistry
	// PageSize is the number of items that are listed at a time. Default 100.
	PageSize int
}

// Validate returns an error that matches ErrBadConfig if the configuration is invalid.
func (c ListConfig[I]) Validate() error {
	switch {
	case c.List == nil:
		return fmt.Errorf("%w: ListConfig.List is nil; give it a function that lists what is to be done", ErrBadConfig)
	case c.Due == nil:
		return fmt.Errorf("%w: ListConfig.Due is nil; give it a function that reads whether an item is still to be done",
			ErrBadConfig)
	case c.PageSize < 0:
		return fmt.Errorf("%w: ListConfig.PageSize is negative; leave it 0 for 100", ErrBadConfig)
	}
	return nil
}

// maxFailing limits the failed items that a list remembers, and maxDone those that were executed. Further items are
// executed again whenever the list comes to them.
const maxFailing, maxDone = 10_000, 10_000

// errTooManyFailing is returned if a parked item cannot be remembered.
var errTooManyFailing = fmt.Errorf("the item is not parked, because the list remembers %d failed items already; let "+
	"OnPark take parked items off the list", maxFailing)

// repeatPause is the pause before an item that was executed, and is still on the list, is executed again.
const repeatPause = time.Second

// releaseTimeout limits the wait for the release of an item's lock. It is released as soon as etcd answers.
const releaseTimeout = 5 * time.Second

// NewList returns a source over a function that lists items, or an error if the configuration is invalid. It keeps
// attempts, pauses and parked items in memory, for the items that are still listed; other processes count for
// themselves. OnPark should take a parked item off the list. Give each automation a source of its own.
func NewList[I any](cfg ListConfig[I]) (Source[I], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.PageSize == 0 {
		cfg.PageSize = 100
	}
	return &list[I]{cfg: cfg, running: map[string]bool{}, failing: map[string]knownItem{},
		done: map[string]knownItem{}}, nil
}

// list is a Source. One call of Next at a time uses the fields above mu.
type list[I any] struct {
	cfg   ListConfig[I]
	page  []Item[I] // listed and not looked at yet
	after string    // the last key listed
	ended bool      // the page is the last one
	pass  int       // number of the present pass through the list

	mu      sync.Mutex
	running map[string]bool
	failing map[string]knownItem // failed and parked
	done    map[string]knownItem // executed, and perhaps still listed
}

// knownItem records the last attempt of one item.
type knownItem struct {
	attempts, failures int
	due                time.Time
	parked             bool
	err                error // of the last attempt
	pass               int   // in which it was listed last
}

// Next implements [Source]. It goes through the list up to its end, and then once from the beginning, unless this call
// began there.
func (l *list[I]) Next(ctx context.Context, name string, work func(ctx context.Context, c Claim[I]) Result) (bool,
	error) {
	whole := l.after == "" && len(l.page) == 0 && !l.ended // this call began at the beginning
	for {
		item, ok, err := l.nextListed(ctx)
		switch {
		case err != nil:
			return false, err
		case !ok && whole:
			return false, nil
		case !ok:
			whole = true
			continue
		}
		if found, err := l.claimItem(ctx, name, item, work); found || err != nil {
			return found, err
		}
	}
}

// nextListed returns the next item of the list, or false at its end, once.
func (l *list[I]) nextListed(ctx context.Context) (item Item[I], ok bool, err error) {
	if len(l.page) == 0 && !l.ended {
		page, err := l.cfg.List(ctx, l.after, l.cfg.PageSize)
		if err != nil {
			return item, false, fmt.Errorf("list the items after %q: %w", l.after, err)
		}
		if err := checkPage(l.after, page); err != nil {
			return item, false, err
		}
		l.page, l.ended = page, len(page) < l.cfg.PageSize
	}
	if len(l.page) == 0 {
		l.endPass()
		return item, false, nil
	}
	item, l.page = l.page[0], l.page[1:]
	l.after = item.Key
	return item, true, nil
}

func checkPage[I any](after string, page []Item[I]) error {
	for _, item := range page {
		if err := checkKey(item.Key); err != nil {
			return err
		}
		if item.Key <= after {
			return fmt.Errorf("%w: %q is listed after %q: order the items by their keys, bytewise", ErrBadItem, item.Key, after)
		}
		after = item.Key
	}
	return nil
}

// endPass begins anew, and forgets the failures of items that are no longer listed.
func (l *list[I]) endPass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range []map[string]knownItem{l.failing, l.done} {
		for key, item := range known {
			if item.pass != l.pass && !l.running[key] {
				delete(known, key)
			}
		}
	}
	l.after, l.ended = "", false
	l.pass++
}

// claimItem calls work with the item if this process may have it now.
func (l *list[I]) claimItem(ctx context.Context, name string, item Item[I], work func(ctx context.Context,
	c Claim[I]) Result) (found bool, err error) {
	c, ok := l.reserveItem(item, time.Now())
	if !ok {
		return false, nil
	}
	result := Result{Outcome: Released}
	defer func() { err = errors.Join(err, l.storeResult(item.Key, result)) }()
	if l.cfg.Locks != nil {
		held, free, lockErr := l.cfg.Locks.TryAcquire(ctx, name+"/"+item.Key)
		if lockErr != nil || !free {
			return false, explainLockError(lockErr)
		}
		defer func() {
			if lost := releaseLock(ctx, held); lost != nil && found {
				err = errors.Join(err, fmt.Errorf("another process may have executed the item, too: %w", lost))
			}
		}()
		merged, stop := wait.MergeContexts(ctx, held.Context())
		defer stop()
		ctx, c.Token = merged, held.Token()
	}
	due, err := l.cfg.Due(ctx, item)
	if err != nil {
		return false, fmt.Errorf("is the item %q still to be done: %w", item.Key, err)
	}
	if !due {
		l.forgetFailures(item.Key)
		return false, nil
	}
	found = true // also if work does not return
	result = work(ctx, c)
	return true, nil
}

// explainLockError marks the error of a registry that never grants locks again.
func explainLockError(err error) error {
	if errors.Is(err, lock.ErrStopped) || errors.Is(err, lock.ErrNotStarted) {
		return fmt.Errorf("%w: the locks of items: %w", processor.ErrNoLock, err)
	}
	return err
}

// releaseLock releases an item's lock. It returns an error if the lock was lost before.
func releaseLock(ctx context.Context, held lock.Held) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := held.Release(ctx); errors.Is(err, lock.ErrLost) {
		return err
	}
	return nil // released, or as soon as etcd answers
}

// reserveItem reserves an item within this process.
func (l *list[I]) reserveItem(item Item[I], now time.Time) (c Claim[I], ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range []map[string]knownItem{l.failing, l.done} {
		f, is := known[item.Key]
		if !is {
			continue
		}
		f.pass = l.pass
		known[item.Key] = f
		if f.parked || now.Before(f.due) {
			return c, false
		}
	}
	if l.running[item.Key] {
		return c, false
	}
	f := l.failing[item.Key]
	l.running[item.Key] = true
	return Claim[I]{Item: item, Attempts: f.attempts, Failures: f.failures, LastError: f.err}, true
}

// storeResult ends the reservation of an item. An item that is done is remembered until it is no longer listed, so that
// it is not executed all the time if it stays there. storeResult returns an error if a parked item cannot be
// remembered.
func (l *list[I]) storeResult(key string, r Result) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, key)
	f := knownItem{attempts: r.Attempts, failures: r.Failures, due: time.Now().Add(r.After), err: r.Err, pass: l.pass,
		parked: r.Outcome == Parked}
	switch r.Outcome {
	case Released:
		return nil
	case Done:
		delete(l.failing, key)
		f.due = time.Now().Add(repeatPause)
		if _, known := l.done[key]; known || len(l.done) < maxDone {
			l.done[key] = f
		}
		return nil
	}
	delete(l.done, key)
	_, known := l.failing[key]
	switch {
	case known || len(l.failing) < maxFailing:
		l.failing[key] = f
	case f.parked:
		return errTooManyFailing
	}
	return nil
}

func (l *list[I]) forgetFailures(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failing, key)
	delete(l.done, key)
}

// Count implements [Counter]. It counts what this process knows.
func (l *list[I]) Count(context.Context, string) (Counts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := Counts{Due: -1}
	for _, f := range l.failing {
		switch {
		case f.parked:
			c.Parked++
		case f.failures > 0:
			c.Waiting++
		}
	}
	return c, nil
}
