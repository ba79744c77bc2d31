package clustertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Faults are what can be wrong between one node and etcd. All methods are safe
// for concurrent use, take effect before they return, and do not block. Faults
// add up, and switching one on twice is the same as once.
type Faults struct {
	renewing *gate
	watching *gate
	linked   *gate
	dead     chan struct{} // closed by die
	kill     func()

	mu    sync.Mutex
	rules []*rule
}

// rule is what to do with the next request that it matches; it serves one.
type rule struct {
	op    Op
	where []Match
	err   error // to answer with, if not nil
	held  *Held // to catch it with, if not nil
	lose  bool  // carry it out and lose the answer
}

var errKilled = errors.New("clustertest: the node was killed")

func newFaults() *Faults {
	f := &Faults{renewing: newGate(), watching: newGate(), linked: newGate(), dead: make(chan struct{})}
	f.kill = sync.OnceFunc(func() { close(f.dead) })
	return f
}

// Inject puts faults between a client of etcd and what uses it from now on, for
// nodes that are no part of a [Cluster], in processes of their own: give the client to
// their Config. It must be called before the client is used.
func Inject(client *clientv3.Client) *Faults {
	f := newFaults()
	f.wrap(client)
	return f
}

// StopRenewing makes every renewal of a lease hang until its context ends. All
// else works.
func (f *Faults) StopRenewing() { f.renewing.shut() }

// ResumeRenewing ends StopRenewing; renewals that hang go on.
func (f *Faults) ResumeRenewing() { f.renewing.open() }

// FreezeWatch makes every watch, those under way and new ones, deliver nothing:
// no event, no progress, no error, not even that it was created. Requests work.
func (f *Faults) FreezeWatch() { f.watching.shut() }

// ThawWatch ends FreezeWatch: watches deliver what has gathered, then go on.
func (f *Faults) ThawWatch() { f.watching.open() }

// CutOff makes every request hang until its context ends, and every watch deliver
// nothing. The answer to a request that is under way does not arrive either.
func (f *Faults) CutOff() { f.linked.shut() }

// Reconnect ends CutOff: what still hangs goes on.
func (f *Faults) Reconnect() { f.linked.open() }

// FailNext answers the next request of this kind that matches with err, and does
// not send it. Called several times, it is about as many requests.
func (f *Faults) FailNext(op Op, err error, where ...Match) {
	f.add(&rule{op: op, where: where, err: err})
}

// LoseAnswer lets the next request of this kind that matches be carried out, and
// its caller wait for an answer until its context ends.
func (f *Faults) LoseAnswer(op Op, where ...Match) { f.add(&rule{op: op, where: where, lose: true}) }

// HoldNext catches the next request of this kind that matches: its caller waits
// for an answer until its context ends; the request itself reaches etcd when it
// is released, however much later.
func (f *Faults) HoldNext(op Op, where ...Match) *Held {
	h := &Held{caught: make(chan struct{})}
	f.add(&rule{op: op, where: where, held: h})
	return h
}

func (f *Faults) add(r *rule) {
	f.mu.Lock()
	f.rules = append(f.rules, r)
	f.mu.Unlock()
}

// take finds the first rule about r and uses it up.
func (f *Faults) take(r Request) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.rules, func(x *rule) bool {
		return x.op.covers(r.Op) && !slices.ContainsFunc(x.where, func(m Match) bool { return !m(r) })
	})
	if i < 0 {
		return nil
	}
	x := f.rules[i]
	f.rules = slices.Delete(f.rules, i, i+1)
	return x
}

// Heal ends all faults that are on, and forgets those that were to befall a request still to come. A node that
// was killed stays so.
func (f *Faults) Heal() {
	f.mu.Lock()
	f.rules = nil
	f.mu.Unlock()
	f.renewing.open()
	f.watching.open()
	f.linked.open()
}

// die makes every request fail from now on, for good.
func (f *Faults) die() { f.kill() }

func (f *Faults) cutOff() bool { return f.linked.isShut() }

// String names the faults that are on.
func (f *Faults) String() string {
	var on []string
	for name, g := range map[string]*gate{"renewing stopped": f.renewing, "watch frozen": f.watching,
		"cut off": f.linked} {
		if g.isShut() {
			on = append(on, name)
		}
	}
	slices.Sort(on)
	return strings.Join(on, ", ")
}

// Held is a request that was, or will be, caught on its way to etcd.
type Held struct {
	caught chan struct{}
	once   sync.Once
	send   func(context.Context) error // set before caught is closed
}

// Caught is closed when a request was caught.
func (h *Held) Caught() <-chan struct{} { return h.caught }

// Release sends the request that was caught to etcd, once, and returns what etcd
// said. Its caller has long seen a time-out, or will. Without a request caught it
// returns an error.
func (h *Held) Release(ctx context.Context) error {
	select {
	case <-h.caught:
	default:
		return errors.New("clustertest: nothing was caught yet; wait for Caught first")
	}
	err := errors.New("clustertest: the request was released before")
	h.once.Do(func() { err = h.send(ctx) })
	return err
}
