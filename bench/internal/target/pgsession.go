package target

import (
	"context"
	"fmt"
	"sync"

	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/sample"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/lock/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/test/pgserver"
)

const (
	sessionName      = "goverse on PostgreSQL"
	asynchronousName = sessionName + ", asynchronous commits"

	sessionNote = "Goverse's on PostgreSQL are rows, on one session of three connections a process. Each change is a " +
		"commit, on the disk before it is answered, or later with `synchronous_commit=off` in the session's URL. The " +
		"server has its default settings."
)

const (
	// The goals of an uncontended lock in PostgreSQL, as multiples of an advisory lock.
	sessionGoal, asynchronousGoal = 8.0, 6.0
	// sessionHandover limits the median of handovers of a contended one, in milliseconds.
	sessionHandover = 1.5
	// sessionConnections is the number of connections of a session.
	sessionConnections = 3
)

// sessionLocks returns Goverse's locks in PostgreSQL, on two sessions, as of two processes.
func sessionLocks(ctx context.Context) (library, error) { return locksOnPostgres(ctx, sessionName, "") }

// asynchronousLocks returns the same without waiting for the disk.
func asynchronousLocks(ctx context.Context) (library, error) {
	return locksOnPostgres(ctx, asynchronousName, "&synchronous_commit=off")
}

func locksOnPostgres(ctx context.Context, name, options string) (library, error) {
	server, err := pgserver.Start()
	if err != nil {
		return library{}, err
	}
	var sessions []*pgsession.Session
	closeAll := func() {
		var closing sync.WaitGroup
		for _, s := range sessions {
			closing.Go(func() { _ = s.Close(context.Background()) })
		}
		closing.Wait()
		_ = server.Close()
	}
	var all []*postgres.Locks
	for range sides {
		s, err := pgsession.Open(ctx, pgsession.Config{URL: server.URL() + options})
		if err != nil {
			closeAll()
			return library{}, err
		}
		sessions, all = append(sessions, s), append(all, postgres.New(s))
	}
	return library{
		name: name,
		wanter: func(ctx context.Context, name string, i int) (mutual, error) {
			var held lock.Held
			return mutual{
				lock: func() (err error) {
					held, err = all[i%len(all)].Acquire(ctx, name)
					return err
				},
				unlock: func() error { return held.Release(ctx) },
			}, nil
		},
		many: func(ctx context.Context) (func(string) error, func(), error) {
			var held []lock.Held
			hold := func(name string) error {
				h, err := all[0].Acquire(ctx, name)
				held = append(held, h)
				return err
			}
			end := func() {
				var releasing sync.WaitGroup
				for _, h := range held {
					releasing.Go(func() { _ = h.Release(ctx) })
				}
				releasing.Wait()
			}
			return hold, end, nil
		},
		connections: sessionConnections,
		close:       closeAll,
	}, nil
}

// judgeSessions adds rows that compare Goverse's locks in PostgreSQL with advisory locks, both measured in turns.
func judgeSessions(r *report.Result, all []*sample.Series) {
	find := func(name string) *sample.Series {
		for _, s := range all {
			if s.Name == name+": lock and unlock" {
				return s
			}
		}
		return nil
	}
	advisory := find(postgresName)
	for _, goal := range []struct {
		name string
		most float64
	}{{sessionName, sessionGoal}, {asynchronousName, asynchronousGoal}} {
		s := find(goal.name)
		if s == nil || advisory == nil {
			continue
		}
		ratio := s.Median() / advisory.Median()
		r.Row(goal.name+", to "+postgresName, fmt.Sprintf("≤ %.0f ×", goal.most), fmt.Sprintf("%.2f ×", ratio),
			report.Judge(ratio <= goal.most))
	}
}
