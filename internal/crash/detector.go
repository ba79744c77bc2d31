package crash

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// ErrRefused is matched by a Dialer's error if, and only if, no program listens at the address.
var ErrRefused = errors.New("connection refused")

// ErrOtherInstance is matched by a Dialer's error if another process answered than the wanted one.
var ErrOtherInstance = errors.New("another instance")

// Dialer opens watches on members.
type Dialer interface {
	// Watch opens a stream to the node that answers at address, which must be that instance unless instance is empty. It
	// blocks no longer than ctx allows. The stream outlives ctx. After an error the member has not armed this process by
	// it. The stream's own goroutine calls heard with each heartbeat that arms this process, in order, and acknowledges it
	// to the member if heard returns true. Heard must not block. If heard is nil, the member does not arm this process.
	Watch(ctx context.Context, address, instance string, heard func(heartbeat.Beat) (acknowledge bool)) (Watch, error)
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
	// ReportRemoval tells the process that etcd has removed a silent member, at that revision or before. It does not
	// block.
	ReportRemoval(revision int64)
	// Close says goodbye, unless ctx has ended. It blocks until the member has received that or ctx ends, and
	// then frees the stream. It reports whether the member has certainly received the goodbye, and thus knows that it
	// has lost a watcher that it had armed on this stream.
	Close(ctx context.Context) (received bool)
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
	// SilenceAccusations and SilenceRemovals count those of them for silence.
	SilenceAccusations, SilenceRemovals int64
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
	removed map[string]int            // by instance id: number of removals in a row, see rememberRemoval
	owed    map[string]*owedGoodbye   // by address

	removal atomic.Int64 // newest revision at which etcd has shown a removal
	reports chan int64   // revisions that other nodes have reported

	armer *armer
	// marks has the marks of removals by this node, by revision, and when withdrawVoid first saw them, by the monotonic
	// clock.
	marks map[int64]time.Duration

	goodbyeCtx  context.Context // ends when the watched members no longer need to receive a goodbye
	endGoodbyes context.CancelFunc

	watching, accusations, removals, refuted, refutations, watchersLost, silent, lastGracePeriod atomic.Int64
	silenceAccusations, silenceRemovals                                                          atomic.Int64
}

// New returns a detector. [Detector.Start] starts it.
func New(cfg Config) *Detector {
	cfg.Settings = cfg.Settings.WithDefaults()
	cfg.Process = cfg.WithDefaults()
	d := &Detector{cfg: cfg, log: cfg.Logger, wake: wait.NewSignal(), cases: map[string]*watchedMember{},
		removed: map[string]int{}, owed: map[string]*owedGoodbye{}, reports: make(chan int64, maxReports),
		marks: map[int64]time.Duration{}}
	d.armer = newArmer(d)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.goodbyeCtx, d.endGoodbyes = context.WithCancel(context.Background())
	return d
}

// Stats returns the present counts.
func (d *Detector) Stats() Stats {
	return Stats{Watching: d.watching.Load(), Accusations: d.accusations.Load(), Removals: d.removals.Load(),
		Refuted: d.refuted.Load(), SilenceAccusations: d.silenceAccusations.Load(),
		SilenceRemovals: d.silenceRemovals.Load(), Refutations: d.refutations.Load(), WatchersLost: d.watchersLost.Load(),
		Silent: d.silent.Load(), LastGracePeriod: time.Duration(d.lastGracePeriod.Load())}
}

// Start begins to watch others, unless detection is off. It does not block.
func (d *Detector) Start() {
	if !d.cfg.Settings.Off {
		d.wg.Go(d.run)
		d.wg.Go(d.silenceLoop)
		d.wg.Go(func() { d.checkReports(d.ctx) })
		d.wg.Go(func() { d.armer.allowSessions(d.ctx) }) // without a silence time-out of its own it watches others
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
			d.learnRemovals(s)
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
		switch {
		case want[address]:
			w.unwanted = false
		case !w.unwanted:
			w.unwanted, w.unwantedSince = true, w.silence.now()
		}
	}
	d.dropUnwanted(s)
}

// successorArmed is the time after which a member that runs has armed those that watch it instead of this process.
const successorArmed = time.Second

// dropUnwanted drops the cases about members that this node is to watch no more. One about a member that has armed this
// node goes on until the member shows that it runs, when it has armed those that watch it instead: if it stands still
// before that, this node may be the only one that can remove it. The lock is held.
func (d *Detector) dropUnwanted(s *state.Snapshot) {
	own, _ := d.registered()
	for _, w := range d.cases {
		if !w.unwanted {
			continue
		}
		armed, sign := w.silence.armedSince()
		if own == nil || !suspicion.IsMember(s, w.incarnation) || !armed || sign >= w.unwantedSince+successorArmed {
			w.drop()
		}
	}
}

// reopenWatches ends all cases that can be dropped, with a goodbye, and begins others in their place.
func (d *Detector) reopenWatches() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.cases {
		w.drop()
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
