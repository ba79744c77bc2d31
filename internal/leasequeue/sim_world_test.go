package leasequeue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
)

const (
	simTTL     = time.Second
	simTimeout = 250 * time.Millisecond
	// faulty is the duration of the faults; patience limits the wait of any caller after that.
	faulty, patience = 3 * time.Second, 90 * time.Second
)

// world holds everything of one schedule.
type world struct {
	seed   uint64
	rand   *rand.Rand // determines the schedule
	e      *modeletcd.Etcd
	keys   state.Keys
	names  []string
	hosts  []*host
	checks *checks
	view   *view // nil: a key that is gone was released
	log    *log
	calm   chan struct{} // closed when the faults have ended
	idle   bool          // there are no followers, and there are times without any entry
}

func newWorld(seed uint64) *world {
	keys, err := state.NewKeys("/sim")
	if err != nil {
		panic(err)
	}
	w := &world{seed: seed, rand: newRand(seed, "schedule"), e: modeletcd.New(), keys: keys,
		log: &log{began: time.Now()}, calm: make(chan struct{})}
	w.checks = &checks{w: w, seen: map[string]int{}, tokens: map[string]tokens{}, tainted: map[string]bool{},
		given: map[*Entry]int{}, asked: map[*Entry]int{}, first: map[string][]*Grant{},
		standing: map[string]int64{}}
	w.e.Changed = w.checks.changed
	w.view = newView(w)
	names := 1 + w.rand.IntN(3)
	if w.rand.IntN(5) == 0 {
		names = 10
	}
	for i := range names {
		w.names = append(w.names, string(rune('p'+i)))
	}
	if w.rand.IntN(10) == 0 {
		w.checks.saw("idle times")
		w.idle = true
	}
	for i := range 1 + w.rand.IntN(3) {
		w.hosts = append(w.hosts, &host{w: w, name: string(rune('a' + i)), asked: map[uint64]int{}})
	}
	return w
}

// between returns a random time, to the nanosecond, so that two events hardly ever coincide.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

func (w *world) run() {
	defer w.e.Close()
	for _, h := range w.hosts {
		h.start()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var actors sync.WaitGroup
	for _, h := range w.hosts {
		for i := range 1 + w.rand.IntN(3) {
			a := newActor(h, i)
			actors.Go(func() { a.run(ctx) })
		}
	}
	if w.view != nil {
		actors.Go(w.view.run)
	}
	w.goWrong()
	close(w.calm)
	w.log.say("all is well from now on")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		actors.Wait()
	}()
	select {
	case <-ended:
		<-time.After(2 * simTTL)
		w.checks.quiet()
	case <-time.After(patience):
		w.checks.fail("somebody waits forever")
	}
	cancel()
	<-ended
	for _, h := range w.hosts {
		h.stop()
	}
	if left := w.e.Keys(""); len(left) > 0 {
		w.checks.fail("%s is left of processes that have stopped", left[0].Key)
	}
}

// host runs one process after the other.
type host struct {
	w       *world
	name    string
	weather weather

	mu    sync.Mutex
	p     *process
	n     int
	asked map[uint64]int // number of requests, by label
}

// process is an engine with its connection and session.
type process struct {
	h      *host
	conn   *modeletcd.Conn
	keeper *etcdsession.Keeper
	engine *Engine
	roots  []*Queues // in the order of world.roots
	heard  []*Follower
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (h *host) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	p := &process{h: h}
	p.conn = h.w.e.Connect(fmt.Sprint(h.name, h.n), h.delivery)
	client := p.conn.Client()
	chance := func(of string) func() float64 { // determined by the seed
		var mu sync.Mutex
		r := newRand(h.w.seed, fmt.Sprint(of, h.name, h.n))
		return func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return r.Float64()
		}
	}
	var err error
	if p.keeper, err = etcdsession.NewKeeper(etcdsession.KeeperConfig{Config: etcdsession.Config{Client: client,
		TTL: simTTL}, Random: chance("session")}); err != nil {
		panic(err)
	}
	cfg := Config{Client: client, Keeper: p.keeper, RequestTimeout: simTimeout, Random: chance("queues")}
	if h.w.view != nil {
		cfg.View = h.w.view
	}
	if p.engine, err = New(cfg, h.w.keys.Locks()); err != nil {
		panic(err)
	}
	for _, root := range h.w.roots() {
		p.roots = append(p.roots, p.engine.Queues(root))
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(func() { _ = p.keeper.Run(ctx) })
	p.wg.Go(func() { p.engine.Run(ctx) })
	if !h.w.idle {
		for _, name := range h.w.names {
			p.heard = append(p.heard, p.queues(name).Follow(name, func() {}))
		}
	}
	h.p = p
	h.w.checks.began(p)
}

// roots returns the roots of the queues: locks and elections.
func (w *world) roots() []state.Queues { return []state.Queues{w.keys.Locks(), w.keys.Elections()} }

// rootOf returns the index of the root of the queue with that name.
func (w *world) rootOf(name string) int { return int(name[0]) & 1 }

// queue returns the prefix of a queue.
func (w *world) queue(name string) string { return w.roots()[w.rootOf(name)].QueuePrefix(name) }

// queueOf returns the prefix of the queue that a key lies in.
func (w *world) queueOf(key string) (queue string, ok bool) {
	for _, root := range w.roots() {
		if queue, ok := root.QueueOf(key); ok {
			return queue, true
		}
	}
	return "", false
}

// nameOf returns the name of the queue that a key lies in, unless it is a request's.
func (w *world) nameOf(key string) (name string, ok bool) {
	for _, root := range w.roots() {
		if name, ok := root.NameOf(key); ok {
			return name, true
		}
	}
	return "", false
}

// queues returns the queues that the one with that name belongs to.
func (p *process) queues(name string) *Queues { return p.roots[p.h.w.rootOf(name)] }

// close makes the process accept no more entries.
func (p *process) close(ctx context.Context) {
	var wg sync.WaitGroup
	for _, q := range p.roots {
		wg.Go(func() { _ = q.Close(ctx) })
	}
	wg.Wait()
}

// present returns the running process.
func (h *host) present() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.p
}

// stop ends the process and waits for it.
func (h *host) stop() {
	p := h.present()
	p.cancel()
	p.wg.Wait()
}

// log records the events. They are formatted only on demand.
type log struct {
	began time.Time
	mu    sync.Mutex
	lines []said
}

type said struct {
	at     time.Duration
	format string
	args   []any
}

func (l *log) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, said{time.Since(l.began), format, args})
}

func (l *log) String() string {
	var b strings.Builder
	for _, line := range l.lines {
		fmt.Fprintf(&b, "%11.6fs ", line.at.Seconds())
		fmt.Fprintf(&b, line.format+"\n", line.args...)
	}
	return b.String()
}
