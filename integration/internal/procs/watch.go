//go:build unix

package procs

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goverse/goverse/internal/test/history"
)

const (
	sampleInterval = 5 * time.Millisecond
	// sampleTimeout is longer than any test freezes a node.
	sampleTimeout = 30 * time.Second
)

// Sample is one answer of one node. The node produced it at some time between Sent and Got.
type Sample struct {
	Node      string
	Pid       int
	Sent, Got time.Time
	Status    Status
}

// Watcher samples the status of nodes until its test ends. It then fails the test if the samples prove that two
// nodes led at the same time, or that a later term did not have a greater token.
type Watcher struct {
	ctx   context.Context
	began time.Time
	wg    sync.WaitGroup

	silent time.Duration // see AllowSilence

	mu      sync.Mutex
	samples []Sample
}

// Watch starts sampling; Add adds further nodes.
func Watch(t testing.TB, nodes ...*Node) *Watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{ctx: ctx, began: time.Now()}
	t.Cleanup(func() {
		cancel()
		w.wg.Wait()
		samples := w.Samples()
		if v := history.Check(historyOf(samples, w.began), history.Limits{Silent: w.silent}); len(samples) > 0 && !v.OK() {
			t.Error(v)
		}
		t.Logf("%d samples of the nodes' status, %d by leaders", len(samples), len(w.Leading(time.Time{}, time.Now())))
	})
	for _, n := range nodes {
		w.Add(n)
	}
	return w
}

// AllowSilence lets the nodes have no session, or no place in the queue, for d and the usual time after it, because the
// test keeps etcd away for d.
func (w *Watcher) AllowSilence(d time.Duration) { w.silent = d + 30*time.Second }

// Add samples one more node until that ends.
func (w *Watcher) Add(n *Node) {
	w.wg.Go(func() {
		for w.ctx.Err() == nil && n.Running() {
			ctx, cancel := context.WithTimeout(w.ctx, sampleTimeout)
			s := Sample{Node: n.Address, Pid: n.Pid(), Sent: time.Now()}
			st, err := n.Status(ctx)
			cancel()
			if err == nil {
				s.Got, s.Status = time.Now(), st
				w.mu.Lock()
				w.samples = append(w.samples, s)
				w.mu.Unlock()
			}
			select {
			case <-time.After(PollPause(sampleInterval, time.Since(s.Sent))):
			case <-w.ctx.Done():
			case <-n.Done():
			}
		}
	})
}

// Samples returns the samples taken so far.
func (w *Watcher) Samples() []Sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Sample(nil), w.samples...)
}

// Leading returns the samples of leading nodes that were certainly produced between the two times.
func (w *Watcher) Leading(from, to time.Time) []Sample {
	var out []Sample
	for _, s := range w.Samples() {
		if s.Status.IsLeader && s.Sent.After(from) && s.Got.Before(to) {
			out = append(out, s)
		}
	}
	return out
}

// historyOf converts the samples to a history, with times relative to from.
func historyOf(samples []Sample, from time.Time) history.History {
	var h history.History
	for _, s := range samples {
		w := history.Window{Before: history.Instant(s.Sent.Sub(from)), After: history.Instant(s.Got.Sub(from))}
		h.Runs = append(h.Runs, s.Status.Run(history.NodeLife{Process: strconv.Itoa(s.Pid), Node: s.Node}, w))
	}
	return h
}

// Run converts the status to a run of one sample, requested in the given window.
func (st Status) Run(who history.NodeLife, asked history.Window) history.Run {
	r := history.Run{NodeLife: who, First: asked, Last: asked, Count: 1}
	switch {
	case st.IsLeader:
		r.Leads, r.Token = true, st.Token
	case !st.Ready && st.LeaderID == "": // for example while a paused process has its session confirmed
		r.State = history.NoSession
	}
	return r
}
