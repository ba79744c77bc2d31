package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

// queueTTL is long, so that a thousand candidates send few renewals. A graceful handover does not wait for an
// expiry.
const queueTTL = 60 * time.Second

// candidate is one LeaderElection with a mirror (and so a watch) and a session of its own, as in a separate
// process.
type candidate struct {
	election *leaderelection.LeaderElection
	part     *leaderelection.Participation
	mirror   *watchcache.Mirror
	address  string
	stop     context.CancelFunc // ends the session
	stopRest context.CancelFunc
	kept     chan struct{}
	wg       sync.WaitGroup
}

// newCandidate returns when the candidate is queued.
func newCandidate(ctx context.Context, client *clientv3.Client, prefix, address string) (*candidate, error) {
	keys, err := state.NewKeys(prefix)
	if err != nil {
		return nil, err
	}
	c := &candidate{address: address, kept: make(chan struct{})}
	process := etcd.Process{Client: client, Keys: keys}
	c.mirror = watchcache.New(watchcache.Config{Process: process, LagTimeout: queueTTL / 3})
	keeper, err := etcdsession.NewKeeper(etcdsession.Config{Process: process, TTL: queueTTL}, etcdsession.Hooks{})
	if err != nil {
		return nil, err
	}
	c.election, c.part, err = leaderelection.NewForMember(leaderelection.MemberConfig{
		Process: etcd.Process{Client: client, Keys: keys, Address: address}, Mirror: c.mirror, Keeper: keeper})
	if err != nil {
		return nil, err
	}
	keeperCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	mirrorCtx, stopRest := context.WithCancel(context.WithoutCancel(ctx))
	c.stop, c.stopRest = stop, stopRest
	c.wg.Go(func() { _ = c.mirror.Run(mirrorCtx) }) // ends with its context only
	go func() {
		defer close(c.kept)
		select {
		case <-c.mirror.Ready():
			_ = keeper.Run(keeperCtx) // without Register it ends only with its context
		case <-keeperCtx.Done():
		}
	}()
	if err := c.part.Start(ctx); err != nil {
		return nil, errors.Join(err, c.close(ctx))
	}
	return c, nil
}

// close leaves the queue, if ctx permits, and waits for all goroutines.
func (c *candidate) close(ctx context.Context) error {
	err := c.part.Withdraw(ctx)
	c.part.Close()
	c.stop()
	<-c.kept
	c.stopRest()
	c.wg.Wait()
	return err
}

// armed is a candidate that is expected to lead. The channel at receives the time at which its function in Lead
// was entered while IsLeader was true.
type armed struct {
	at     chan time.Time
	failed chan error
}

// arm waits for c to lead, in a goroutine.
func (c *candidate) arm(ctx context.Context) armed {
	a := armed{at: make(chan time.Time, 1), failed: make(chan error, 1)}
	go func() { // ends with ctx at the latest
		err := c.election.Lead(ctx, func(context.Context, leaderelection.Term) error {
			led := c.election.IsLeader()
			a.at <- time.Now()
			if !led {
				return fmt.Errorf("%s entered Lead and does not lead", c.address)
			}
			return nil
		})
		if err != nil {
			a.failed <- err
		}
	}()
	return a
}

func (a armed) wait(ctx context.Context) (time.Time, error) {
	select {
	case at := <-a.at:
		return at, nil
	case err := <-a.failed:
		return time.Time{}, err
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("wait for the next leader: %w", ctx.Err())
	}
}

// line is the queue of candidates; its first one leads.
type line []*candidate

// newLine starts n candidates over the given connections.
func newLine(ctx context.Context, clients []*clientv3.Client, prefix string, n int) (line, error) {
	var l line
	for i := range n {
		c, err := newCandidate(ctx, clients[i%len(clients)], prefix, fmt.Sprintf("127.0.0.1:%d", 1000+i))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("candidate %d: %w", i, err), l.close())
		}
		l = append(l, c)
	}
	_, err := l[0].arm(ctx).wait(ctx)
	return l, err
}

// handOver makes the leader resign and returns the time from the call of Resign until the next candidate led.
// It returns after the former leader is at the end of the queue and every candidate has seen that.
func (l line) handOver(ctx context.Context) (time.Duration, error) {
	old, next := l[0], l[1]
	token := int64(0)
	if t, leads := old.election.Term(); leads {
		token = t.Token()
	}
	waiting := next.arm(ctx)
	rest(ctx, pause) // by now it waits
	started := time.Now()
	if err := old.election.Resign(ctx); err != nil {
		return 0, err
	}
	at, err := waiting.wait(ctx)
	if err != nil {
		return 0, err
	}
	copy(l, l[1:])
	l[len(l)-1] = old
	s, err := old.mirror.Wait(ctx, func(s *state.Snapshot) bool {
		return slices.ContainsFunc(s.Queue, func(c *state.Candidate) bool {
			return c.Address == old.address && c.CreateRevision > token
		})
	})
	if err != nil {
		return 0, err
	}
	for _, c := range l {
		if _, err := c.mirror.Wait(ctx, func(seen *state.Snapshot) bool { return seen.Revision >= s.Revision }); err != nil {
			return 0, err
		}
	}
	return at.Sub(started), nil
}

// close ends all candidates and leaves their keys in etcd, which ends next: if a thousand candidates left the
// queue in order, all the others would have to follow each deletion.
func (l line) close() error {
	for _, c := range l {
		c.stopRest()
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(l))
	for i, c := range l {
		wg.Go(func() {
			if err := c.close(over); !errors.Is(err, context.Canceled) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
