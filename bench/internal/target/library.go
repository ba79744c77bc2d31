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

// library is a way to take locks: ours, or a peer's.
type library struct {
	name string
	// absent is why it cannot be measured here; the rest is not set then, but for close.
	absent error
	// wanter is the i-th who wants the lock of that name, for one goroutine.
	wanter func(ctx context.Context, name string, i int) (mutual, error)
	// many is one process that takes many locks and holds them all until end.
	many func(ctx context.Context) (hold func(name string) error, end func(), err error)
	// barges: who gives a lock back can have it again before those who wait have noticed.
	barges bool
	// slow: a handover takes so long that fewer have to do.
	slow  bool
	close func()
}

// mutual is one lock as somebody takes it and gives it back.
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

// wanters are the first n who want that lock.
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

// each: a lock for everybody.
func each(i int) (string, int) { return fmt.Sprintf("lock %d", i), 0 }

// one: a lock for all.
func one(i int) (string, int) { return "one", i }

const (
	oursName    = "goverse"
	mutexesName = "concurrency.Mutex"

	// peersNote stands where the peers have been described before.
	peersNote = "The peers are those of T6, with the same options."
)

// ours is as many processes as there are clients.
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

// mutexes are concurrency's. All who want the same lock need a session each.
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

// inEtcd are ours, one process a client, and concurrency's mutexes, over as many connections.
func inEtcd(ctx context.Context, mine, theirs []*clientv3.Client) ([]library, func(), error) {
	l, err := ours(ctx, mine)
	if err != nil {
		return nil, nil, err
	}
	m := mutexes(theirs)
	return []library{l, m}, func() { l.close(); m.close() }, nil
}

// withServers are the peers with a server of their own, each of which is started here. What is
// not installed is absent, or an error if it is required.
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

// present are those that can be measured.
func present(all []library) []library {
	return slices.DeleteFunc(slices.Clone(all), func(l library) bool { return l.absent != nil })
}

// sayAbsent says in the table what was not measured, and why.
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

// numbered is a lock's name as the number that some have instead.
func numbered(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return int64(h.Sum64())
}
