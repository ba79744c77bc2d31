package etcdfault

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Faults controls the faults between one process and etcd. All methods are safe for concurrent use, take effect
// before they return, and do not block. Faults add up; switching one on twice equals once.
type Faults struct {
	renewing *gate
	watching *gate
	linked   *gate
	dead     chan struct{} // closed by Kill
	kill     func()

	mu    sync.Mutex
	rules []*faultRule
}

// faultRule applies a fault to the next request that it matches, and is used up by it.
type faultRule struct {
	op    Op
	where []Match
	err   error // returned to the caller, if not nil
	held  *Held // catches the request, if not nil
	lose  bool  // etcd executes the request and the answer is lost
}

var errKilled = errors.New("etcdfault: the node was killed")

func newFaults() *Faults {
	f := &Faults{renewing: newGate(), watching: newGate(), linked: newGate(), dead: make(chan struct{})}
	f.kill = sync.OnceFunc(func() { close(f.dead) })
	return f
}

// Inject puts faults between an etcd client and its users. Call it before the client is used, and set the client
// in the Config of the node.
func Inject(client *clientv3.Client) *Faults {
	f := newFaults()
	f.wrapClient(client)
	return f
}

// StopRenewing makes every renewal of a lease hang until its context ends. Other requests work.
func (f *Faults) StopRenewing() { f.renewing.shut() }

// ResumeRenewing ends StopRenewing. Renewals that hang continue.
func (f *Faults) ResumeRenewing() { f.renewing.open() }

// FreezeWatch stops all deliveries of existing and new watches: no event, no progress, no error, not even the
// confirmation that a watch was created. Requests work.
func (f *Faults) FreezeWatch() { f.watching.shut() }

// ThawWatch ends FreezeWatch. Watches deliver the responses that were held back, then go on.
func (f *Faults) ThawWatch() { f.watching.open() }

// CutOff makes every request hang until its context ends, and stops all deliveries of watches. The answers to
// requests that are under way do not arrive either.
func (f *Faults) CutOff() { f.linked.shut() }

// Reconnect ends CutOff. Requests that still hang continue.
func (f *Faults) Reconnect() { f.linked.open() }

// FailNext answers the next request of the kind that matches with err, without sending it. Each call applies to
// one request.
func (f *Faults) FailNext(op Op, err error, where ...Match) {
	f.addRule(&faultRule{op: op, where: where, err: err})
}

// LoseAnswer loses the answer to the next request of the kind that matches: etcd executes the request, and its
// caller waits until its context ends.
func (f *Faults) LoseAnswer(op Op, where ...Match) {
	f.addRule(&faultRule{op: op, where: where, lose: true})
}

// HoldNext catches the next request of the kind that matches. Its caller waits for an answer until its context
// ends. The request reaches etcd when [Held.Release] is called, however much later.
func (f *Faults) HoldNext(op Op, where ...Match) *Held {
	h := &Held{caught: make(chan struct{})}
	f.addRule(&faultRule{op: op, where: where, held: h})
	return h
}

func (f *Faults) addRule(r *faultRule) {
	f.mu.Lock()
	f.rules = append(f.rules, r)
	f.mu.Unlock()
}

// takeRule removes and returns the first rule that matches r, or nil.
func (f *Faults) takeRule(r Request) *faultRule {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.rules, func(x *faultRule) bool {
		return x.op.covers(r.Op) && !slices.ContainsFunc(x.where, func(m Match) bool { return !m(r) })
	})
	if i < 0 {
		return nil
	}
	x := f.rules[i]
	f.rules = slices.Delete(f.rules, i, i+1)
	return x
}

// Heal ends all active faults and discards those that await a request. A node that was killed stays so.
func (f *Faults) Heal() {
	f.mu.Lock()
	f.rules = nil
	f.mu.Unlock()
	f.renewing.open()
	f.watching.open()
	f.linked.open()
}

// Kill makes every request fail from now on. Heal does not end that.
func (f *Faults) Kill() { f.kill() }

// IsCutOff reports whether CutOff is in effect.
func (f *Faults) IsCutOff() bool { return f.linked.isShut() }

// String lists the active faults.
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

// Held is a request that HoldNext has caught, or will catch, on its way to etcd.
type Held struct {
	caught chan struct{}
	once   sync.Once
	send   func(context.Context) error // set before caught is closed
}

// Caught returns a channel that is closed when a request has been caught.
func (h *Held) Caught() <-chan struct{} { return h.caught }

// Release sends the caught request to etcd and returns etcd's error. The request's caller does not get the
// answer; its wait ends with its own context. Release returns an error if no request was caught yet, or if it
// was called before.
func (h *Held) Release(ctx context.Context) error {
	select {
	case <-h.caught:
	default:
		return errors.New("etcdfault: nothing was caught yet; wait for Caught first")
	}
	err := errors.New("etcdfault: the request was released before")
	h.once.Do(func() { err = h.send(ctx) })
	return err
}
