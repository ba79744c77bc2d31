package crash

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
)

// ErrRefused is what a Dialer's error matches if, and only if, nobody listens at the
// address.
var ErrRefused = errors.New("connection refused")

// Dialer opens watches on members.
type Dialer interface {
	// Watch opens a stream to the node that answers at address. It blocks no longer than
	// ctx allows. The stream outlives ctx.
	Watch(ctx context.Context, address string) (Watch, error)
}

// Watch is an open stream.
type Watch interface {
	// Instance is the id of the process that answered.
	Instance() string
	// Wait blocks until the stream ends and returns nil after a goodbye, an error
	// otherwise; or until ctx ends.
	Wait(ctx context.Context) error
	// Heartbeats reports whether the process sends heartbeats, and Heard how many have come.
	Heartbeats() bool
	Heard() uint64
	// Close says goodbye, unless ctx has ended, blocks until the member has taken note
	// or ctx ends, and frees the stream.
	Close(ctx context.Context)
}

// Config is what a detector needs. All but Random and Logger are required.
type Config struct {
	Client *clientv3.Client
	Mirror *watchcache.Mirror
	Keeper *etcdsession.Keeper
	// Address and InstanceID are the member's own.
	Address, InstanceID string
	Dialer              Dialer
	// WatcherLost receives when a stream to this member broke.
	WatcherLost <-chan struct{}
	Settings    Settings
	// Random draws the numbers in [0, 1) by which retries get out of step, for a simulation that is to
	// come out the same again. It must be safe for concurrent use. Default: math/rand's.
	Random func() float64
	Logger hclog.Logger
}

// Stats are counts since the start.
type Stats struct {
	// Watching is how many watches on other members stand now.
	Watching int64
	// Accusations that this node wrote; Removals that followed; Refuted by the
	// accused.
	Accusations, Removals, Refuted int64
	// Refutations by this node of accusations against itself, and WatchersLost: watchers
	// that it lost.
	Refutations, WatchersLost int64
	// Silent is how many of those that this node watches do not answer it now.
	Silent int64
	// LastGracePeriod is what the member had that this node removed last, to refute the accusation.
	LastGracePeriod time.Duration
}

// Detector watches other members, accuses those against whom there is evidence, and
// answers for its own. Its methods are safe for concurrent use.
type Detector struct {
	cfg Config
	log hclog.Logger

	ctx    context.Context // of the cases
	cancel context.CancelFunc
	wg     sync.WaitGroup
	look   chan struct{} // whom to watch may have changed

	mu      sync.Mutex
	cases   map[string]*watched // by address, until they have ended
	removed map[string]int      // by instance id: how often it was removed here

	leave    context.Context // ends when those who are watched need not hear a goodbye any more
	endLeave context.CancelFunc

	watching, accusations, removals, refuted, refutations, watchersLost, silent, lastGracePeriod atomic.Int64
}

// New makes a detector; [Detector.Start] makes it live.
func New(cfg Config) *Detector {
	cfg.Settings = cfg.Settings.WithDefaults()
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	d := &Detector{cfg: cfg, log: cfg.Logger, look: make(chan struct{}, 1), cases: map[string]*watched{},
		removed: map[string]int{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.leave, d.endLeave = context.WithCancel(context.Background())
	return d
}

// Stats are the counts of now.
func (d *Detector) Stats() Stats {
	return Stats{Watching: d.watching.Load(), Accusations: d.accusations.Load(), Removals: d.removals.Load(),
		Refuted: d.refuted.Load(), Refutations: d.refutations.Load(), WatchersLost: d.watchersLost.Load(),
		Silent: d.silent.Load(), LastGracePeriod: time.Duration(d.lastGracePeriod.Load())}
}

// Start begins to watch others, unless detection is off. It does not block.
func (d *Detector) Start() {
	if !d.cfg.Settings.Off {
		d.wg.Go(d.run)
		d.wg.Go(d.listenForSilence)
	}
}

// Stop says goodbye to those who are watched, unless ctx has ended, and returns when
// all that Start began has ended.
func (d *Detector) Stop(ctx context.Context) {
	brief, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	defer context.AfterFunc(brief, d.endLeave)()
	if ctx.Err() != nil {
		d.endLeave()
	}
	d.cancel()
	d.wg.Wait()
	d.endLeave()
}

func (d *Detector) run() {
	sub := d.cfg.Mirror.Subscribe(membersChanged)
	defer sub.Close()
	for {
		select {
		case <-sub.C:
		case <-d.look:
		case <-d.ctx.Done():
			return
		}
		if s := d.cfg.Mirror.Snapshot(); s != nil {
			d.choose(s)
		}
	}
}

// membersChanged reports whether somebody came, left, or is another instance.
func membersChanged(before, now *state.Snapshot) bool {
	if len(before.Members) != len(now.Members) {
		return true
	}
	if state.Same(before.Members, now.Members) {
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

// choose starts the cases that are to be, and gives up those that are not. One of which
// something stands in etcd goes on until that is settled; meanwhile there is no other
// about its address.
func (d *Detector) choose(s *state.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := map[string]bool{}
	for _, m := range suspicion.Targets(s, d.self(), d.cfg.Settings.Watchers, d.counts) {
		want[m.Address] = true
		switch w := d.cases[m.Address]; {
		case w == nil:
			w := newWatched(d, m, d.removed[m.InstanceID])
			d.cases[m.Address] = w
			d.wg.Go(func() {
				w.run()
				d.ended(w)
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

// ended makes room for another case about the same address.
func (d *Detector) ended(w *watched) {
	d.mu.Lock()
	delete(d.cases, w.address)
	d.mu.Unlock()
	d.lookAgain()
}

// counts reports whether a member is one of those who are watched; the lock is held.
func (d *Detector) counts(m *state.Member) bool {
	w := d.cases[m.Address]
	return w == nil || w.incarnation != m.Incarnation || !w.suspected.Load()
}

func (d *Detector) lookAgain() {
	select {
	case d.look <- struct{}{}:
	default:
	}
}
