package target

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// contender is a candidate of concurrency.Election, the peer, with a session of its own.
type contender struct {
	session  *concurrency.Session
	election *concurrency.Election
	value    string
	won      chan time.Time
	failed   chan error
}

// newContender returns when the contender's key is in the queue.
func newContender(ctx context.Context, client *clientv3.Client, prefix, value string) (*contender, error) {
	s, err := concurrency.NewSession(client, concurrency.WithTTL(int(queueTTL/time.Second)))
	if err != nil {
		return nil, err
	}
	c := &contender{session: s, value: value, won: make(chan time.Time, 1), failed: make(chan error, 1)}
	return c, c.campaign(ctx, client, prefix)
}

// campaign queues again and returns when the key is in the queue.
func (c *contender) campaign(ctx context.Context, client *clientv3.Client, prefix string) error {
	c.election = concurrency.NewElection(c.session, prefix)
	election := c.election
	go func() { // ends with ctx at the latest
		if err := election.Campaign(ctx, c.value); err != nil {
			c.failed <- err
			return
		}
		c.won <- time.Now()
	}()
	key := fmt.Sprintf("%s/%x", prefix, c.session.Lease())
	for {
		resp, err := client.Get(ctx, key, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 1 {
			return nil
		}
	}
}

func (c *contender) wait(ctx context.Context) (time.Time, error) {
	select {
	case at := <-c.won:
		return at, nil
	case err := <-c.failed:
		return time.Time{}, err
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("wait for the peer's next leader: %w", ctx.Err())
	}
}

// peers is the queue of contenders; its first one leads.
type peers struct {
	clients []*clientv3.Client
	prefix  string
	queue   []*contender
}

func newPeers(ctx context.Context, clients []*clientv3.Client, prefix string, n int) (*peers, error) {
	p := &peers{clients: clients, prefix: prefix}
	for i := range n {
		if err := p.join(ctx, i); err != nil {
			return nil, fmt.Errorf("contender %d: %w", i, err)
		}
	}
	_, err := p.queue[0].wait(ctx)
	return p, err
}

func (p *peers) join(ctx context.Context, i int) error {
	c, err := newContender(ctx, p.clients[i%len(p.clients)], p.prefix, fmt.Sprintf("127.0.0.1:%d", 1000+i))
	if err == nil {
		p.queue = append(p.queue, c)
	}
	return err
}

// handOver makes the leader resign and returns the time from the call of Resign until the next contender's
// Campaign returned.
func (p *peers) handOver(ctx context.Context) (time.Duration, error) {
	old, next := p.queue[0], p.queue[1]
	started := time.Now()
	if err := old.election.Resign(ctx); err != nil {
		return 0, err
	}
	at, err := next.wait(ctx)
	p.queue = p.queue[1:]
	return at.Sub(started), err
}

// requeue puts a contender that has led at the end of the queue.
func (p *peers) requeue(ctx context.Context, c *contender) error {
	p.queue = append(p.queue, c)
	return c.campaign(ctx, p.clients[0], p.prefix)
}

// close revokes the sessions from the end of the queue, so that none of the contenders wins.
func (p *peers) close() {
	for i := len(p.queue) - 1; i >= 0; i-- {
		_ = p.queue[i].session.Close()
	}
}
