package leaderelection

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/member/membership"
	"github.com/goverse/goverse/internal/member/registration"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// Errors of New and Runner.Start. Test for them with errors.Is.
var (
	// ErrBadConfig is returned by New for a mistake in the configuration.
	ErrBadConfig = errors.New("bad configuration of the election")
	// ErrIDTaken is returned by Start when another living process takes part under this identity.
	ErrIDTaken = membership.ErrIDTaken
	// ErrEtcdUnreachable, ErrEtcdDenied and ErrNotEtcd are returned by Start when etcd does not answer, refuses the
	// user, or is another server.
	ErrEtcdUnreachable = connect.ErrUnreachable
	ErrEtcdDenied      = connect.ErrDenied
	ErrNotEtcd         = connect.ErrNotEtcd
)

// Config configures a process's part in an election by itself. EtcdPrefix is required.
type Config struct {
	// EtcdAddress is one address of etcd, or several separated by commas. Default localhost:2379. It is unused with
	// Client.
	EtcdAddress string
	// Client is an etcd client to use instead, for example with TLS or a password; see cluster.NewEtcdClient. The
	// election does not close it.
	Client *clientv3.Client
	// EtcdPrefix is the prefix of the election's keys; the queue lies under <EtcdPrefix>/leader/. It must be the same
	// in all processes of an election. Nodes of a cluster with this prefix take part in the same election, and so do
	// other programs with concurrency.Election and etcdctl elect.
	EtcdPrefix string
	// ID names this process. Others see it as the leader's address. No two processes that live may have the same: after
	// about a TTL the second one's Start fails with ErrIDTaken. A process that crashed leaves its ID for a TTL. Default:
	// the host name and a random part.
	ID string
	// TTL is the session's time-to-live, in whole seconds. After a crash the next process leads within TTL. Default
	// 10 s. etcd grants at least 1.5 times its own election time-out (2 s by default); the granted TTL applies.
	TTL time.Duration
	// RequestTimeout limits each request to etcd. Default 2 s.
	RequestTimeout time.Duration
	// WorkTimeout limits how long a leader that gives way waits for the functions in Lead to return after their
	// context has ended. Default 5 s.
	WorkTimeout time.Duration
	// Observer makes the process observe without ever standing for election.
	Observer bool
	// Logger receives one line per event of interest to an operator, and etcd's own warnings. Default: none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	c.EtcdAddress = cmp.Or(c.EtcdAddress, "localhost:2379")
	if c.ID == "" {
		host, _ := os.Hostname() // may be empty
		c.ID = host + "-" + strings.ToLower(rand.Text()[:8])
	}
	c.TTL = cmp.Or(c.TTL, 10*time.Second)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, etcd.DefaultTimeout)
	c.WorkTimeout = cmp.Or(c.WorkTimeout, 5*time.Second)
	c.Logger = logqueue.New(c.Logger)
	return c
}

func (c Config) validate() error {
	if c.Client == nil {
		if err := connect.CheckAddresses(c.EtcdAddress); err != nil {
			return fmt.Errorf("%w: %w", ErrBadConfig, err)
		}
	}
	switch {
	case c.EtcdPrefix == "":
		return fmt.Errorf("%w: EtcdPrefix is empty: name the election, as in /orders/leader-of-import", ErrBadConfig)
	case c.TTL < time.Second || c.TTL > 24*time.Hour || c.TTL%time.Second != 0:
		return fmt.Errorf("%w: TTL is %v: give whole seconds from 1 to 86400; 10 is a good one", ErrBadConfig, c.TTL)
	case c.RequestTimeout < 0 || c.WorkTimeout < 0:
		return fmt.Errorf("%w: RequestTimeout or WorkTimeout is negative; leave it 0 for the default", ErrBadConfig)
	}
	return nil
}

// Runner starts and stops a process's part in an election by itself. Its methods are safe for concurrent use. Call Stop
// also if Start was never called.
type Runner struct {
	cfg           Config
	keys          state.Keys
	connection    connect.Config
	election      *LeaderElection
	registration  *registration.Registration
	participation *Participation

	mu          sync.Mutex
	started     chan struct{} // nil before Start; closed when Start returns
	cancelStart context.CancelCauseFunc
	joined      bool          // the parts run; written before started is closed
	stopped     chan struct{} // nil before Stop; closed when Stop has ended everything

	endOnce sync.Once
	endErr  error
}

// New returns this process's part in an election, for those that use it, and the value that starts and stops it. It
// opens no port and makes no request before [Runner.Start]. Errors match ErrBadConfig.
//
// The process is shown among the members of a cluster with the same prefix. It plans no shards and has none: while it
// leads, the first node in the queue plans them. There is no fallback by name, which needs a cluster's members.
func New(cfg Config) (*LeaderElection, *Runner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, nil, err
	}
	keys, err := state.NewKeys(cfg.EtcdPrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: EtcdPrefix: %w", ErrBadConfig, err)
	}
	r := &Runner{cfg: cfg, keys: keys}
	client := cfg.Client
	if client != nil {
		r.connection = connect.ForClient(client, cfg.Logger)
	} else {
		config := connect.Config{Address: cfg.EtcdAddress, Logger: cfg.Logger}
		if client, err = config.Connect(context.Background()); err != nil { // without a user it does not connect yet
			return nil, nil, fmt.Errorf("%w: EtcdAddress: %w", ErrBadConfig, err)
		}
		r.connection = config.ForMade(client)
	}
	if err := r.assemble(client); err != nil {
		r.closeClient(client)
		return nil, nil, fmt.Errorf("%w: %w", ErrBadConfig, err)
	}
	return r.election, r, nil
}

// assemble makes the parts, none of which runs yet.
func (r *Runner) assemble(client *clientv3.Client) (err error) {
	cfg := r.cfg
	process := etcd.Process{Client: client, Keys: r.keys, Address: cfg.ID, RequestTimeout: cfg.RequestTimeout,
		Logger: cfg.Logger}
	r.registration, err = registration.New(registration.Config{TTL: cfg.TTL, Process: process,
		Record: state.Record{InstanceID: rand.Text(), Observer: cfg.Observer, ElectionOnly: true},
		Explain: func(err error) error {
			return r.connection.Explain(context.Background(), err, r.requiredRights())
		}})
	if err != nil {
		return err
	}
	r.election, r.participation, err = NewForMember(MemberConfig{Process: process.Named("election"),
		Observer: cfg.Observer, WorkTimeout: cfg.WorkTimeout, Mirror: r.registration.Mirror,
		Keeper: r.registration.Keeper})
	return err
}

// Start registers this process and queues it. It returns once the process is queued; it does not wait until it leads.
// While etcd cannot be reached, Start keeps trying until ctx ends or Stop is called, so give ctx a deadline. After an
// error everything is undone. It starts once: a second call returns ErrStarted, which also matches ErrStopped after
// Stop.
func (r *Runner) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.mu.Lock()
	if r.started != nil || r.stopped != nil {
		defer r.mu.Unlock()
		if r.stopped != nil {
			return fmt.Errorf("%w: %w", ErrStopped, ErrStarted)
		}
		return ErrStarted
	}
	r.started, r.cancelStart = make(chan struct{}), cancel
	r.mu.Unlock()
	defer close(r.started)
	err := r.join(ctx)
	r.mu.Lock()
	stopping := r.stopped != nil
	r.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case stopping: // Stop undoes it
		err = ErrStopped
	default:
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.RequestTimeout)
		defer cancel()
		_ = r.end(undo) // kept for Stop; the error of the start says more
	}
	return fmt.Errorf("take part in the election under %s: %w", r.cfg.EtcdPrefix, err)
}

// requiredRights names the rights that this process needs at etcd.
func (r *Runner) requiredRights() string { return access.RequiredRights(r.keys, access.Election) }

// join starts the parts and waits until this process is queued.
func (r *Runner) join(ctx context.Context) error {
	_, err := registration.AwaitEtcd(ctx, r.connection, etcd.Process{Keys: r.keys,
		RequestTimeout: r.cfg.RequestTimeout, Logger: r.cfg.Logger}, r.requiredRights())
	if err != nil {
		return err
	}
	r.joined = true
	r.registration.Start()
	if _, err := r.registration.AwaitRegistered(ctx); err != nil {
		return registration.ExplainJoin(ctx, r.connection, r.requiredRights(), err, r.registration.LastError())
	}
	if err := r.participation.Start(ctx); err != nil {
		return err
	}
	// There is no fallback. If etcd denies the candidate's key, this process cannot take part.
	if err := r.election.Failed(); err != nil {
		return r.connection.Explain(context.WithoutCancel(ctx), err, r.requiredRights())
	}
	return nil
}

// Stop hands the leadership over, if this process leads, and leaves: it ends the term and waits for its work (at most
// WorkTimeout), leaves the queue, revokes the session, so that nothing of the process is left in etcd, and waits for
// every goroutine. If ctx ends first, Stop revokes the session at once and returns ctx's cause. If etcd does not
// answer, the error is etcd's, and the keys stay until the TTL has passed. The error matches ErrWorkRuns if functions
// in Lead go on after WorkTimeout. A Start that has not returned ends with ErrStopped. A later Stop waits for the
// first one and returns its result.
func (r *Runner) Stop(ctx context.Context) error {
	r.mu.Lock()
	if r.stopped != nil {
		stopped := r.stopped
		r.mu.Unlock()
		if err := wait.UntilClosed(ctx, stopped); err != nil {
			return err
		}
		return r.endErr
	}
	r.stopped = make(chan struct{})
	started, cancelStart := r.started, r.cancelStart
	r.mu.Unlock()
	defer close(r.stopped)
	if started != nil {
		cancelStart(ErrStopped)
		<-started
	}
	return r.end(ctx)
}

// end stops what runs, once, and returns the error of that.
func (r *Runner) end(ctx context.Context) error {
	r.endOnce.Do(func() {
		if err := r.endParts(ctx); err != nil {
			r.endErr = fmt.Errorf("leave the election under %s: %w", r.cfg.EtcdPrefix, err)
		}
		r.closeClient(r.election.cfg.Client)
		logqueue.Flush(ctx, r.cfg.Logger)
	})
	return r.endErr
}

func (r *Runner) endParts(ctx context.Context) error {
	if !r.joined {
		r.participation.Close()
		return nil
	}
	return r.registration.Leave(ctx, r.participation.Withdraw, r.participation.Close)
}

// closeClient closes a client that New has made.
func (r *Runner) closeClient(client *clientv3.Client) {
	if r.cfg.Client == nil {
		_ = client.Close() // its error only says that its context was cancelled
	}
}
