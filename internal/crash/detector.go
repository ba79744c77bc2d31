package crash

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// ErrRefused is matched by a Dialer's error if, and only if, no program listens at the address.
var ErrRefused = errors.New("connection refused")

// Dialer opens watches on members.
type Dialer interface {
	// Watch opens a stream to the node that answers at address. It blocks no longer than ctx allows. The stream
	// outlives ctx.
	Watch(ctx context.Context, address string) (Watch, error)
}

// Watch is an open stream to a member.
type Watch interface {
	// Instance returns the id of the process that answered.
	Instance() string
	// Wait blocks until the stream ends or ctx ends. It returns nil after a goodbye and an error otherwise.
	Wait(ctx context.Context) error
	// Heartbeats reports whether the process sends heartbeats. Heard returns the number of heartbeats received.
	Heartbeats() bool
	Heard() uint64
	// Close says goodbye, unless ctx has ended. It blocks until the member has received that or ctx ends, and
	// then frees the stream.
	Close(ctx context.Context)
}

// Settings configures how crashes are detected. The zero value stands for the defaults.
type Settings = suspicion.Settings

// Config configures a Detector.
type Config struct {
	etcd.Process
	Mirror *watchcache.Mirror
	Keeper *etcdsession.Keeper
	// InstanceID identifies this process.
	InstanceID string
	Dialer     Dialer
	// WatcherLost receives when a stream to this member broke.
	WatcherLost <-chan struct{}
	Settings    Settings
}

// Stats holds counts since the start, and present values.
type Stats struct {
	// Watching is the number of open watches on other members.
	Watching int64
	// Accusations counts the accusations that this node wrote, Removals those that ended in a removal, and
	// Refuted those that the accused refuted.
	Accusations, Removals, Refuted int64
	// Refutations counts this node's refutations of accusations against itself, and WatchersLost the watchers
	// that it lost.
	Refutations, WatchersLost int64
	// Silent is the number of watched members that do not answer this node now.
	Silent int64
	// LastGracePeriod is the grace period that the member last removed by this node had for refuting.
	LastGracePeriod time.Duration
}

// Detector watches other members, accuses them on evidence, and defends its own member. Its methods are safe
// for concurrent use.
type Detector struct {
	cfg Config
	log hclog.Logger

	ctx    context.Context // of all cases
	cancel context.CancelFunc
	wg     sync.WaitGroup
	wake   wait.Signal // signals that the members to watch may have changed

	mu      sync.Mutex
	cases   map[string]*watchedMember // by address, until they have ended
	removed map[string]int            // by instance id: number of removals by this node

	goodbyeCtx  context.Context // ends when the watched members no longer need to receive a goodbye
	endGoodbyes context.CancelFunc

	watching, accusations, removals, refuted, refutations, watchersLost, silent, lastGracePeriod atomic.Int64
}

// New returns a detector. [Detector.Start] starts it.
func New(cfg Config) *Detector {
	cfg.Settings = cfg.Settings.WithDefaults()
	cfg.Process = cfg.WithDefaults()
	d := &Detector{cfg: cfg, log: cfg.Logger, wake: wait.NewSignal(), cases: map[string]*watchedMember{},
		removed: map[string]int{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.goodbyeCtx, d.endGoodbyes = context.WithCancel(context.Background())
	return d
}

// Stats returns the present counts.
func (d *Detector) Stats() Stats {
	return Stats{Watching: d.watching.Load(), Accusations: d.accusations.Load(), Removals: d.removals.Load(),
		Refuted: d.refuted.Load(), Refutations: d.refutations.Load(), WatchersLost: d.watchersLost.Load(),
		Silent: d.silent.Load(), LastGracePeriod: time.Duration(d.lastGracePeriod.Load())}
}

// Start begins to watch others, unless detection is off. It does not block.
func (d *Detector) Start() {
	if !d.cfg.Settings.Off {
		d.wg.Go(d.run)
		d.wg.Go(d.silenceLoop)
	}
}

// Stop says goodbye to the watched members and erases the marks of silent ones, unless ctx has ended, and returns when
// all goroutines of the detector have ended.
func (d *Detector) Stop(ctx context.Context) {
	brief, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	defer context.AfterFunc(brief, d.endGoodbyes)()
	if ctx.Err() != nil {
		d.endGoodbyes()
	}
	d.cancel()
	d.wg.Wait()
	d.endGoodbyes()
}

func (d *Detector) run() {
	sub := d.cfg.Mirror.Subscribe(membersChanged)
	defer sub.Close()
	for {
		select {
		case <-sub.C:
		case <-d.wake:
		case <-d.ctx.Done():
			return
		}
		if s := d.cfg.Mirror.Snapshot(); s != nil {
			d.reconcile(s)
		}
	}
}

// membersChanged reports whether a member has joined, left, or is another instance now.
func membersChanged(before, now *state.Snapshot) bool {
	if len(before.Members) != len(now.Members) {
		return true
	}
	if state.SameSlice(before.Members, now.Members) {
		return false
	}
	for i, m := range now.Members {
		if b := before.Members[i]; b != m && (b.Address != m.Address || b.Incarnation != m.Incarnation ||
			b.InstanceID != m.InstanceID) {
			return true
		}
	}
	return false
}

func (d *Detector) self() suspicion.Self {
	me := suspicion.Self{Address: d.cfg.Address, InstanceID: d.cfg.InstanceID}
	if s := d.cfg.Keeper.Current(); s != nil {
		me.Lease = int64(s.ID())
	}
	return me
}

// reconcile starts the cases that should exist and drops all others. A case that has begun an accusation continues
// until it can be dropped; until then its address has no other case.
func (d *Detector) reconcile(s *state.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := map[string]bool{}
	for _, m := range suspicion.WatchTargets(s, d.self(), d.cfg.Settings.Watchers, d.countsAsWatched) {
		want[m.Address] = true
		switch w := d.cases[m.Address]; {
		case w == nil:
			w := newWatchedMember(d, m, d.removed[m.InstanceID])
			d.cases[m.Address] = w
			d.wg.Go(func() {
				w.run()
				d.removeCase(w)
			})
		case w.incarnation != m.Incarnation:
			w.drop()
		}
	}
	for address, w := range d.cases {
		if !want[address] {
			w.drop()
		}
	}
}

// removeCase makes room for another case about the same address.
func (d *Detector) removeCase(w *watchedMember) {
	d.mu.Lock()
	delete(d.cases, w.address)
	d.mu.Unlock()
	d.wake.Send()
}

// countsAsWatched reports whether a member counts as watched. The lock is held.
func (d *Detector) countsAsWatched(m *state.Member) bool {
	w := d.cases[m.Address]
	return w == nil || w.incarnation != m.Incarnation || !w.suspected.Load()
}
