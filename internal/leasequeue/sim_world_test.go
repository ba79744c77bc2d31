package leasequeue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/invariant"
	"github.com/goverse/goverse/internal/test/modeletcd"
	"github.com/goverse/goverse/internal/test/schedule"
)

const (
	simTTL     = time.Second
	simTimeout = 250 * time.Millisecond
	// faulty is the duration of the faults; patience limits the wait of any caller after that.
	faulty, patience = 3 * time.Second, 90 * time.Second
)

// world holds everything of one schedule.
type world struct {
	*schedule.World
	keys   state.Keys
	names  []string
	hosts  []*host
	checks *checks
	view   *view         // nil: a key that is gone was released
	calm   chan struct{} // closed when the faults have ended
	idle   bool          // there are no followers, and there are times without any entry
}

func newWorld(base *schedule.World) *world {
	keys, err := state.NewKeys("/sim")
	if err != nil {
		panic(err)
	}
	w := &world{World: base, keys: keys, calm: make(chan struct{})}
	w.RequestTimeout = simTimeout
	w.StartEtcd(1)
	w.checks = &checks{w: w, tokens: map[string]*invariant.Tokens[*Grant]{}, tainted: map[string]bool{},
		given: map[*Entry]int{}, asked: map[*Entry]int{}, first: map[string][]*Grant{},
		standing: map[string]int64{}}
	w.Etcd.Changed = w.checks.changed
	w.view = newView(w)
	names := 1 + w.Rand.IntN(3)
	if w.Rand.IntN(5) == 0 {
		names = 10
	}
	for i := range names {
		w.names = append(w.names, string(rune('p'+i)))
	}
	if w.Rand.IntN(10) == 0 {
		w.Counts.Count("idle times")
		w.idle = true
	}
	for i := range 1 + w.Rand.IntN(3) {
		w.hosts = append(w.hosts, newHost(w, string(rune('a'+i))))
	}
	return w
}

// playSchedule runs one schedule.
func playSchedule(base *schedule.World) {
	w := newWorld(base)
	defer w.Etcd.Close()
	for _, h := range w.hosts {
		h.start()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var actors sync.WaitGroup
	for _, h := range w.hosts {
		for i := range 1 + w.Rand.IntN(3) {
			a := newActor(h, i)
			actors.Go(func() { a.run(ctx) })
		}
	}
	if w.view != nil {
		actors.Go(w.view.run)
	}
	w.causeFaults()
	close(w.calm)
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
		w.Fail("a caller waits forever")
	}
	cancel()
	<-ended
	for _, h := range w.hosts {
		h.stop()
	}
	if left := w.Etcd.Keys(""); len(left) > 0 {
		w.Fail("%s remains, although its process has stopped", left[0].Key)
	}
}

// host runs one process after the other.
type host struct {
	w    *world
	link *schedule.Link // to etcd
	name string

	mu sync.Mutex
	p  *process
	n  int
}

func newHost(w *world, name string) *host {
	h := &host{w: w, name: name, link: w.NewLink(name)}
	h.link.MinHop, h.link.MaxHop = time.Millisecond, 4*time.Millisecond
	return h
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
	p.conn = h.link.Connect(fmt.Sprint(h.name, h.n), func(request any) modeletcd.Delivery {
		d, _ := h.link.Deliver(label(request), request)
		return d
	})
	client := p.conn.Client()
	chance := func(of string) func() float64 { // determined by the seed
		var mu sync.Mutex
		r := schedule.NewRand(h.w.Seed, of, h.name, h.n)
		return func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return r.Float64()
		}
	}
	var err error
	if p.keeper, err = etcdsession.NewKeeper(etcdsession.Config{TTL: simTTL,
		Process: etcd.Process{Client: client, Random: chance("session")}}, etcdsession.Hooks{}); err != nil {
		panic(err)
	}
	cfg := Config{Process: etcd.Process{Client: client, RequestTimeout: simTimeout, Random: chance("queues")},
		Keeper: p.keeper}
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
