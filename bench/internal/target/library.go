package target

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/testkit/redisproc"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/internal/test/needed"
	"github.com/goverse/goverse/internal/test/pgserver"
)

// library is one implementation of locks: that of Goverse or of a peer.
type library struct {
	name string
	// absent is the reason that it cannot be measured here. If it is set, only name and close are.
	absent error
	// wanter returns the i-th contender for the named lock, for use by one goroutine.
	wanter func(ctx context.Context, name string, i int) (mutual, error)
	// many returns a process that takes many locks and holds them all until end.
	many func(ctx context.Context) (hold func(name string) error, end func(), err error)
	// connections is the number of connections of such a process; 0 stands for one.
	connections int
	// barges reports that a contender that releases a lock can acquire it again before the waiting ones notice.
	barges bool
	// slow reports that a handover takes so long that fewer samples must suffice.
	slow  bool
	close func()
}

// mutual is a lock as used by one contender.
type mutual struct {
	lock   func() error
	unlock func() error
}

func (m mutual) pair() error {
	if err := m.lock(); err != nil {
		return err
	}
	return m.unlock()
}

// wanters returns the first n contenders for the locks that which selects.
func (l library) wanters(ctx context.Context, n int, which func(i int) (name string, who int)) ([]mutual, error) {
	all := make([]mutual, n)
	for i := range all {
		var err error
		name, who := which(i)
		if all[i], err = l.wanter(ctx, name, who); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return all, nil
}

// each selects a lock of its own for every contender.
func each(i int) (string, int) { return fmt.Sprintf("lock %d", i), 0 }

// one selects the same lock for all contenders.
func one(i int) (string, int) { return "one", i }

const (
	oursName    = "goverse"
	mutexesName = "concurrency.Mutex"

	// peersNote is the note for tables with peers that were described before.
	peersNote = "The peers are those of T6, with the same options."
)

// ours returns Goverse's locks, with one process per client.
func ours(ctx context.Context, clients []*clientv3.Client) (library, error) {
	var all []*locker
	closeAll := func() {
		for _, l := range all {
			l.close()
		}
	}
	for i, c := range clients {
		l, err := newLocker(ctx, c, fmt.Sprint(i))
		if err != nil {
			closeAll()
			return library{}, err
		}
		all = append(all, l)
	}
	return library{name: oursName, close: closeAll, wanter: func(ctx context.Context, name string, i int) (mutual, error) {
		var held lock.Held
		return mutual{
			lock: func() (err error) {
				held, err = all[i%len(all)].locks.Acquire(ctx, name)
				return err
			},
			unlock: func() error { return held.Release(ctx) },
		}, nil
	}}, nil
}

// mutexes returns the mutexes of package concurrency. Contenders for the same lock need a session each.
func mutexes(clients []*clientv3.Client) library {
	var sessions []*concurrency.Session
	return library{
		name: mutexesName, slow: true,
		wanter: func(ctx context.Context, name string, i int) (mutual, error) {
			for len(sessions) <= i {
				s, err := concurrency.NewSession(clients[len(sessions)%len(clients)], concurrency.WithTTL(int(lockTTL.Seconds())))
				if err != nil {
					return mutual{}, err
				}
				sessions = append(sessions, s)
			}
			m := concurrency.NewMutex(sessions[i], "/peer/"+name)
			return mutual{func() error { return m.Lock(ctx) }, func() error { return m.Unlock(ctx) }}, nil
		},
		close: func() {
			for _, s := range sessions {
				_ = s.Close()
			}
		},
	}
}

// inEtcd returns Goverse's locks, one process per client, and concurrency's mutexes, over as many connections.
func inEtcd(ctx context.Context, mine, theirs []*clientv3.Client) ([]library, func(), error) {
	l, err := ours(ctx, mine)
	if err != nil {
		return nil, nil, err
	}
	m := mutexes(theirs)
	return []library{l, m}, func() { l.close(); m.close() }, nil
}

// withServers returns the peers with servers of their own, which it starts. A server that is not installed
// makes its peer absent, or is an error if it is required.
func withServers(ctx context.Context) (all []library, closeAll func(), err error) {
	closeAll = func() {
		for _, l := range all {
			l.close()
		}
	}
	for _, peer := range []struct {
		name, program string
		start         func(context.Context) (library, error)
		absent        error
	}{
		{sessionName, "postgres", sessionLocks, pgserver.ErrNotInstalled},
		{asynchronousName, "postgres", asynchronousLocks, pgserver.ErrNotInstalled},
		{postgresName, "postgres", postgresLocks, pgserver.ErrNotInstalled},
		{redisName, "redis", redisLocks, redisproc.ErrNotInstalled},
	} {
		l, err := peer.start(ctx)
		switch {
		case errors.Is(err, peer.absent) && needed.Required(peer.program):
			closeAll()
			return nil, nil, fmt.Errorf("%s names %s: %w", needed.Env, peer.program, err)
		case errors.Is(err, peer.absent):
			l = library{name: peer.name, absent: peer.absent, close: func() {}}
		case err != nil:
			closeAll()
			return nil, nil, fmt.Errorf("%s: %w", peer.name, err)
		}
		all = append(all, l)
	}
	return all, closeAll, nil
}

// present returns the libraries that can be measured.
func present(all []library) []library {
	return slices.DeleteFunc(slices.Clone(all), func(l library) bool { return l.absent != nil })
}

// sayAbsent adds rows for the libraries that were not measured, with the reasons.
func sayAbsent(all []library, r *report.Result) {
	for _, l := range all {
		if l.absent != nil {
			r.Row(l.name, "", fmt.Sprintf("not measured: %v", l.absent), report.Context)
		}
	}
}

var errForgotten = errors.New("the lock was not held any more when it was given back")

func heldUntilNow(held bool) error {
	if !held {
		return errForgotten
	}
	return nil
}

// numbered converts a lock's name to a number, for implementations that need one.
func numbered(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return int64(h.Sum64())
}
