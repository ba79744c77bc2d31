package embedetcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// ErrRunning is returned by RestartMember when the member is already running.
var ErrRunning = errors.New("etcd member is running")

// errClosed is returned by RestartMember after Close.
var errClosed = errors.New("embedetcd: the cluster was closed: start another")

// A Cluster is several etcd members in one process. Members are numbered from 0; methods panic if there is no
// member with the given number. A Cluster is safe for concurrent use.
type Cluster struct {
	configs []Config // each with its own directory and port
	dir     string   // parent of the members' directories, removed by Close
	links   *memberLinks

	mu      sync.Mutex
	members []*Server // nil where stopped
	closed  bool
}

// StartCluster runs n members on free ports of 127.0.0.1 and returns once all of them serve clients. Of cfg,
// Name is the prefix of the members' names. DataDir, ListenClient, Peers and Token must be empty, because
// StartCluster chooses them; the data is in a temporary directory that Close removes. Its errors
// are the same as those of Start.
func StartCluster(ctx context.Context, n int, cfg Config) (*Cluster, error) {
	if n < 1 {
		return nil, badConfig("a cluster of %d members: use at least 1", n)
	}
	if cfg.DataDir != "" || cfg.ListenClient != "" || len(cfg.Peers) != 0 || cfg.Token != "" {
		return nil, badConfig("DataDir, ListenClient, Peers or Token is set: StartCluster chooses them, leave them empty")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		c, err := startCluster(ctx, n, cfg.withDefaults())
		// The ports of all members are fixed before the first one starts. If another process takes one of them
		// first, all are drawn again.
		if err == nil || !errors.Is(err, ErrAddressInUse) || attempt == startAttempts || ctx.Err() != nil {
			return c, err
		}
	}
}

func startCluster(ctx context.Context, n int, cfg Config) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "goverse-etcd-")
	if err != nil {
		return nil, noTempError(err)
	}
	c := &Cluster{dir: dir, links: newMemberLinks(n), members: make([]*Server, n)}
	// A random token keeps out members of another cluster that used the same ports before.
	peers, token := map[string]string{}, rand.Text()
	for i := range n {
		one := cfg
		one.Name = fmt.Sprintf("%s-%d", cfg.Name, i)
		one.DataDir = filepath.Join(dir, one.Name)
		one.Peers, one.Token, one.allNew = peers, token, true
		if one.ListenClient, err = choosePort(ctx, "ListenClient", cfg.ListenClient); err == nil {
			peers[one.Name], err = choosePort(ctx, "Peers", "127.0.0.1:0")
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.configs = append(c.configs, one)
	}
	// Start the members one after the other. An etcd that starts asks its peers about the cluster, and a peer
	// that has bound its port but does not answer yet costs a second. Do not wait for each: they serve once
	// more than half of them have started.
	for i := range n {
		if c.members[i], err = beginServer(ctx, c.configs[i]); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.links.setServer(i, c.members[i])
	}
	for _, s := range c.members {
		if err := s.waitReady(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Endpoints returns the client addresses of all members, including stopped ones.
func (c *Cluster) Endpoints() []string {
	var out []string
	for _, cfg := range c.configs {
		out = append(out, cfg.ListenClient)
	}
	return out
}

// Member returns member i, or nil while it is stopped.
func (c *Cluster) Member(i int) *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[i]
}

// StopMember stops member i without handing over etcd's leadership, as a crash would. The member answers no
// request from the first moment; the call returns when its connections are gone as well, up to a second later.
// Its data and its ports stay reserved for RestartMember. StopMember does nothing if the member is stopped
// already.
func (c *Cluster) StopMember(i int) error {
	c.mu.Lock()
	s := c.members[i]
	c.members[i] = nil
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.closeServer(true)
}

// RestartMember starts a stopped member with its data and its ports, and returns once it serves clients. That
// takes a majority: if fewer members run, restart several concurrently. It fails with ErrRunning if the member
// runs, and otherwise like Start.
func (c *Cluster) RestartMember(ctx context.Context, i int) error {
	c.mu.Lock()
	running, closed := c.members[i] != nil, c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return errClosed
	case running:
		return fmt.Errorf("embedetcd: %w: stop member %d before you restart it", ErrRunning, i)
	}
	s, err := beginServer(ctx, c.configs[i])
	if err != nil {
		return err
	}
	c.links.setServer(i, s)
	if err := s.waitReady(ctx); err != nil {
		return errors.Join(err, s.closeServer(true))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.Join(errClosed, s.closeServer(true))
	}
	c.members[i] = s
	return nil
}

// Close stops all members within about a second, frees their ports and removes their data.
//
// If the members exchanged requests within the last five seconds, goroutines of net/http that served them can
// outlive this call, until etcd's read timeout of five seconds ends them. A leak check sees
// (*persistConn).readLoop and writeLoop, (*conn).serve with (*connReader).abortPendingRead, and
// (*connReader).backgroundRead. A single Server has no such connections.
func (c *Cluster) Close() error {
	c.mu.Lock()
	c.closed = true
	members := c.members
	c.members = make([]*Server, len(members))
	c.mu.Unlock()
	errs := make([]error, len(members)+1)
	var wg sync.WaitGroup
	for i, s := range members {
		if s != nil {
			// All at the same time, and without handing over leadership to members that stop as well.
			wg.Go(func() { errs[i] = s.closeServer(true) })
		}
	}
	wg.Wait()
	errs[len(members)] = os.RemoveAll(c.dir)
	return errors.Join(errs...)
}
