//go:build unix

package procs

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

const (
	sampleInterval = 5 * time.Millisecond
	// sampleTimeout is longer than any test freezes a node.
	sampleTimeout = 30 * time.Second
)

// Sample is one answer of one node, made at some instant between Sent and Got.
type Sample struct {
	Node      string
	Pid       int
	Sent, Got time.Time
	Status    Status
}

// Watcher samples the status of nodes until its test ends, and then fails the test
// if the samples prove that two nodes led at one instant, or that a later term had
// no greater token.
type Watcher struct {
	ctx context.Context
	wg  sync.WaitGroup

	mu      sync.Mutex
	samples []Sample
}

// Watch starts to sample; Add takes further nodes in.
func Watch(t testing.TB, nodes ...*Node) *Watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{ctx: ctx}
	t.Cleanup(func() {
		cancel()
		w.wg.Wait()
		samples := w.Samples()
		for _, fault := range faults(samples) {
			t.Error(fault)
		}
		t.Logf("%d samples of the nodes' status, %d by leaders", len(samples), len(w.Leading(time.Time{}, time.Now())))
	})
	for _, n := range nodes {
		w.Add(n)
	}
	return w
}

// Add samples one more node, until it ends.
func (w *Watcher) Add(n *Node) {
	w.wg.Go(func() {
		again := time.NewTicker(sampleInterval)
		defer again.Stop()
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
			case <-again.C:
			case <-w.ctx.Done():
			case <-n.Done():
			}
		}
	})
}

// Samples are those taken so far.
func (w *Watcher) Samples() []Sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Sample(nil), w.samples...)
}

// Leading are the samples, surely made between the two instants, in which a node
// says that it leads.
func (w *Watcher) Leading(from, to time.Time) []Sample {
	var out []Sample
	for _, s := range w.Samples() {
		if s.Status.IsLeader && s.Sent.After(from) && s.Got.Before(to) {
			out = append(out, s)
		}
	}
	return out
}

// term is what the samples prove of one term: it is unbroken, so it lasted at least
// from an instant not after begun to one not before ended.
type term struct {
	node        string
	pid         int
	token       int64
	first, last Sample // by begun and ended
}

// begun is the instant by which the term surely had begun.
func (x *term) begun() time.Time { return x.first.Got }

// ended is the instant before which the term surely had not ended.
func (x *term) ended() time.Time { return x.last.Sent }

// overlaps reports whether y surely stood at some instant within what is proven of x.
func (x *term) overlaps(y *term) bool {
	for _, s := range []Sample{y.first, y.last} {
		if !s.Sent.Before(x.begun()) && !s.Got.After(x.ended()) {
			return true
		}
	}
	// Of a term seen once not even an instant is known: it ended before it had begun.
	return !x.ended().Before(x.begun()) && !y.ended().Before(y.begun()) &&
		!x.ended().Before(y.begun()) && !y.ended().Before(x.begun())
}

// faults is what the samples prove to be wrong.
func faults(samples []Sample) []string {
	type key struct {
		pid   int
		token int64
	}
	terms := map[key]*term{}
	for _, s := range samples {
		if !s.Status.IsLeader {
			continue
		}
		k := key{s.Pid, s.Status.Token}
		x := terms[k]
		if x == nil {
			terms[k] = &term{s.Node, s.Pid, s.Status.Token, s, s}
			continue
		}
		if s.Got.Before(x.first.Got) {
			x.first = s
		}
		if s.Sent.After(x.last.Sent) {
			x.last = s
		}
	}
	var out []string
	for _, x := range terms {
		for _, y := range terms {
			if x == y {
				continue
			}
			if x.last.Got.Before(y.first.Sent) && x.token >= y.token {
				out = append(out, fmt.Sprintf("%s leads with token %d after %s did with %d", y.node, y.token, x.node, x.token))
			}
			if x.pid != y.pid && x.overlaps(y) {
				out = append(out, fmt.Sprintf("two leaders: %s (token %d) from %s to %s, and %s (token %d) from %s to %s",
					x.node, x.token, clock(x.begun()), clock(x.ended()), y.node, y.token, clock(y.begun()), clock(y.ended())))
			}
		}
	}
	return out
}

func clock(t time.Time) string { return t.Format("15:04:05.000000") }
