package pgnode

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/leaderelection/postgres"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/internal/eventlog"
	"github.com/goverse/goverse/internal/logs/logqueue"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/wait"
)

// Node is this process as a node of a cluster in PostgreSQL. All methods are safe for concurrent use.
type Node struct {
	cfg       Config
	keeper    *claims.Keeper
	log       hclog.Logger
	id        string
	instance  string
	host      string
	labels    string // as JSON
	elections *postgres.Elections
	observed  *postgres.Election  // a view of the election
	candidate *postgres.Candidate // nil for an observer
	events    Events
	limit     *eventlog.ProgramLimit // of the program's events
	requests  *eventlog.ProgramLimit // of operators' requests

	ctx    context.Context // ends with Leave
	cancel context.CancelFunc
	done   chan struct{} // closed when the node has left
	tasks  *wait.Group
	waker  waker

	seen      atomic.Pointer[view]
	reads     atomic.Int64 // of the nodes, for tests
	connected atomic.Int64 // connections opened

	// Of the goroutine of run:

	conn       *pgx.Conn // nil, or the node's own connection
	failures   int       // successive failures to connect
	failing    bool      // the last attempt has failed, and that was logged
	hinted     bool      // the nodes may have changed
	urgent     bool      // the nodes are to be read at once
	newEvents  bool      // events are to be read
	readAt     time.Time // the nodes were last read, or that was tried
	registerAt time.Time // the next attempt to register may begin
	unrecorded bool      // the last attempt to record a change has failed
	eventsAt   time.Time // the log was last read
	noted      int64     // the token of the last term without a successor that was recorded; -1 for none
	known      int64     // the token of the leader that this node last knew
	session    *claims.Session
	tried      bool // to register

	mu          sync.Mutex
	stopped     bool
	stopping    bool
	wantRefresh bool
	leaveErr    error
	lastErr     error // of the last request for the nodes
	jobs        []*job
	term        *termRecord   // this node's present term
	ends        []termRecord  // of terms, to be recorded
	lost        []lostSession // to be recorded
	terms       int64
	losses      int64
	lastEnd     *leaderelection.TermOverError
	subs        map[wait.Signal]bool // of changes
	recent      ring
}

// Join makes this process a node, with the Owner of its session as its id, and a candidate of the election unless it
// only observes. It makes its tables unless they are there; if its user may not create them, it returns PostgreSQL's
// error, and an administrator runs [SchemaSQL] once. While the session of another process with the same id stands, or
// the session has another node, Join waits; if ctx ends meanwhile, its error matches ErrDuplicate. Join blocks until
// the node has registered, or ctx ends, and up to a second longer to delete its row then. Other errors match
// ErrBadConfig or ErrStopped, or are PostgreSQL's. ctx has no meaning after Join.
//
// The node uses one connection beside those of the session. If the session is lost, the node registers again when
// another one is open.
func Join(ctx context.Context, session *pgsession.Session, cfg Config) (*Node, error) {
	err := cfg.Validate()
	if err == nil {
		err = checkSession(session)
	}
	if err != nil {
		return nil, err
	}
	n := newNode(session, cfg.withDefaults())
	if err := n.occupySession(ctx); err != nil {
		return nil, err
	}
	if err := n.join(ctx); err != nil {
		n.abandon()
		return nil, err
	}
	n.observed, err = n.elections.Observe(n.cfg.Election)
	if err == nil && !n.cfg.Observer {
		n.candidate, err = n.elections.Stand(n.cfg.Election)
	}
	if err == nil && !n.keeper.Go(n.run) {
		err = ErrStopped
	}
	if err != nil { // the session was closed
		n.abandon()
		return nil, err
	}
	return n, nil
}

// nodes has the node of each session that has one.
var nodes sync.Map // *claims.Keeper to *Node

// occupySession makes the node that of its session, once there is no other one.
func (n *Node) occupySession(ctx context.Context) error {
	for {
		other, occupied := nodes.LoadOrStore(n.keeper, n)
		if !occupied {
			return nil
		}
		select {
		case <-other.(*Node).done:
		case <-ctx.Done():
			return fmt.Errorf("%w (id %q: this session has a node): %w", ErrDuplicate, n.id, context.Cause(ctx))
		}
	}
}

// end lets the session have another node.
func (n *Node) end() {
	nodes.CompareAndDelete(n.keeper, n)
	close(n.done)
}

// abandonTimeout limits the request that deletes the row of a node that could not join.
const abandonTimeout = time.Second

// abandon gives up a node that does not run. If its row cannot be deleted, others see it until the session is closed or
// has another node.
func (n *Node) abandon() {
	n.tasks.Close(ErrStopped)
	n.cancel()
	if n.observed != nil {
		_ = n.observed.Close()
	}
	if n.tried {
		ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
		defer cancel()
		if conn, err := n.connect(ctx); err == nil {
			_ = n.deleteRow(ctx, conn)
		}
	}
	if n.conn != nil {
		closeConn(n.conn)
	}
	n.end()
}

func newNode(session *pgsession.Session, cfg Config) *Node {
	n := &Node{cfg: cfg, keeper: session.Keeper(), log: cfg.Logger, instance: strings.ToLower(rand.Text()),
		elections: postgres.New(session, postgres.Logger(cfg.Logger), postgres.WorkTimeout(cfg.WorkTimeout)),
		limit:     eventlog.NewProgramLimit(), requests: eventlog.NewProgramLimit(), done: make(chan struct{}),
		tasks: wait.NewGroup(), noted: -1, subs: map[wait.Signal]bool{}}
	n.id = n.keeper.Owner()
	n.host, _ = os.Hostname()
	n.host = storable(n.host)
	labels, _ := json.Marshal(cfg.Labels)
	n.labels = string(labels)
	n.events = Events{n}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.seen.Store(&view{})
	return n
}

// duplicateRetry is the time between two attempts to register an id that another process has.
const duplicateRetry = 200 * time.Millisecond

// join registers the node for the first time, and reads the cluster.
func (n *Node) join(ctx context.Context) error {
	conn, err := n.connect(ctx)
	if err == nil {
		err = CreateTables(ctx, conn, n.keeper.Schema())
	}
	var duplicate *string // the host of the process that was last seen with the id
	for err == nil {
		var holder *string
		if holder, err = n.register(ctx, conn); err != nil || holder == nil {
			break
		}
		if duplicate == nil {
			n.log.Warn("another living process has this node's id, waiting for its end", "node", n.id, "host", *holder)
		}
		duplicate = holder
		if !wait.For(ctx, duplicateRetry) {
			err = context.Cause(ctx)
		}
	}
	if err != nil && duplicate != nil && ctx.Err() != nil { // it may have ended during a request
		err = fmt.Errorf("%w (id %q, host %q): %w", ErrDuplicate, n.id, *duplicate, context.Cause(ctx))
	}
	if err == nil {
		err = n.refresh(ctx, conn)
	}
	if err == nil {
		err = n.readEvents(ctx, conn)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrDuplicate), errors.Is(err, ErrStopped):
		return err
	}
	return fmt.Errorf("join the cluster in PostgreSQL: %w", pg.WithRemedy(err))
}

// register registers the node on the present session. If another process has the id, it returns its host.
func (n *Node) register(ctx context.Context, conn *pgx.Conn) (holder *string, err error) {
	s, err := n.awaitSession(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, n.keeper.RequestTimeout())
	defer cancel()
	n.tried = true
	var incarnation int64
	err = conn.QueryRow(ctx, in(n.keeper.Schema(),
		"SELECT incarnation, holder FROM {{schema}}.register_node($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
		n.id, s.ID(), n.instance, n.host, n.cfg.HTTPAddress, n.ownPart(nil), n.cfg.Version, n.labels, format.Release(),
		string(leaderelection.ReasonSessionLost)).Scan(&incarnation, &holder)
	if err != nil || incarnation == 0 {
		return holder, err
	}
	n.session = s
	v := *n.seen.Load()
	v.incarnation, v.session = incarnation, s.ID()
	n.seen.Store(&v)
	n.log.Info("registered as a node in PostgreSQL", "node", n.id, "incarnation", incarnation)
	return nil, nil
}

// awaitSession returns the present session, once there is one.
func (n *Node) awaitSession(ctx context.Context) (*claims.Session, error) {
	for {
		s, changed := n.keeper.WatchCurrent()
		switch {
		case n.keeper.Context().Err() != nil:
			return nil, ErrStopped
		case s != nil:
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Leave ends the candidacy, which waits for the functions of a term up to the WorkTimeout, deletes the node's row, and
// closes its connection. Other candidacies on the session go on. Leave blocks until that is done, or ctx ends; the
// node then goes on to leave, and leaving again waits for that. An error says that others may see the node until the
// session is closed. Closing the session leaves, too. Afterwards, the session can have another node.
func (n *Node) Leave(ctx context.Context) error {
	n.mu.Lock()
	n.stopping = true
	n.mu.Unlock()
	n.signalChange()
	if n.candidate != nil {
		_ = n.candidate.Withdraw(ctx) // ends with the session otherwise
	}
	n.cancel()
	n.waker.wake()
	defer logqueue.Flush(context.Background(), n.log)
	select {
	case <-n.done:
	case <-ctx.Done():
		return fmt.Errorf("leave the cluster in PostgreSQL: %w; others may see the node until its session is closed",
			context.Cause(ctx))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leaveErr != nil {
		return fmt.Errorf("leave the cluster in PostgreSQL: %w; others see the node until its session is closed", n.leaveErr)
	}
	return nil
}
