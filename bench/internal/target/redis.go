package target

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/goverse/goverse/bench/internal/testkit/redisproc"
)

const (
	redisName = "redsync, one Redis"

	redisNote = "redsync's have its default options, on one Redis with its own: a lock ends after 8 s unless the " +
		"program extends it; a caller that finds it taken asks again after 50 to 250 ms, " +
		"drawn at random, and 32 times in all (here it then begins anew). A caller that comes back at once does not " +
		"queue behind those waiting. The pool is go-redis's default, too: 10 connections a core. " +
		"Redis answers before anything is on the disk. Neither peer gives a token."
)

// redisLocks returns redsync's locks on a server that it starts.
func redisLocks(ctx context.Context) (library, error) {
	server, err := redisproc.Start(ctx)
	if err != nil {
		return library{}, err
	}
	client := redis.NewClient(&redis.Options{Addr: server.Address})
	all := redsync.New(goredis.NewPool(client))
	return library{
		name: redisName, barges: true, slow: true,
		wanter: func(ctx context.Context, name string, _ int) (mutual, error) {
			m := all.NewMutex(name)
			return mutual{
				lock: func() error {
					for {
						err := m.LockContext(ctx)
						if taken := (*redsync.ErrTaken)(nil); ctx.Err() != nil || !errors.As(err, &taken) && !errors.Is(err,
							redsync.ErrFailed) {
							return err
						}
					}
				},
				unlock: func() error {
					held, err := m.UnlockContext(ctx)
					if err != nil {
						return err
					}
					return heldUntilNow(held)
				},
			}, nil
		},
		many: func(ctx context.Context) (func(string) error, func(), error) {
			var held []*redsync.Mutex
			hold := func(name string) error {
				m := all.NewMutex(name)
				held = append(held, m)
				return m.LockContext(ctx)
			}
			return hold, func() { held = nil }, nil // they expire by themselves
		},
		close: func() {
			_ = client.Close()
			_ = server.Close()
		},
	}, nil
}
