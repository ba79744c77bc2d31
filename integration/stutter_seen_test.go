//go:build linux

package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goverse/goverse/integration/internal/leases"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// askEvery is the interval between two requests to a node over HTTP; a shorter one would keep the machine
	// busy. The workers are sampled every millisecond.
	askEvery = 5 * time.Millisecond
)

// leadershipPoll records the nodes' answers about their leadership over HTTP.
type leadershipPoll struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	runs []history.Run
}

// pollLeadership polls nodes, by their names in the history, until end is called or the test ends.
func pollLeadership(t testing.TB, nodes map[string]*procs.Node) *leadershipPoll {
	ctx, cancel := context.WithCancel(context.Background())
	a := &leadershipPoll{cancel: cancel}
	for name, n := range nodes {
		a.wg.Go(func() { a.pollNode(ctx, name, n) })
	}
	t.Cleanup(func() { a.stopPoll() })
	return a
}

func (a *leadershipPoll) pollNode(ctx context.Context, name string, n *procs.Node) {
	last := -1
	for ctx.Err() == nil {
		sent, asked := time.Now(), history.Window{Before: history.Now()}
		st, err := n.Status(ctx)
		asked.After = history.Now()
		r := st.Run(history.NodeLife{Process: fmt.Sprint(n.Pid()), Node: name}, asked)
		a.mu.Lock()
		switch {
		case err != nil:
		case last >= 0 && a.runs[last].Leads == r.Leads && a.runs[last].Token == r.Token &&
			a.runs[last].State == r.State:
			a.runs[last].Last, a.runs[last].Count = r.Last, a.runs[last].Count+1
		default:
			last = len(a.runs)
			a.runs = append(a.runs, r)
		}
		a.mu.Unlock()
		wait.For(ctx, procs.PollPause(askEvery, time.Since(sent)))
	}
}

// stopPoll stops the polling and returns the answers.
func (a *leadershipPoll) stopPoll() history.History {
	a.cancel()
	a.wg.Wait()
	return history.History{Runs: a.runs}
}

// watchLeases detects leases that etcd revokes although they were renewed. It trusts the counts of etcd's
// leader only while that is one of the members that do not stutter.
func watchLeases(w *stutterWorld) *leases.Watcher {
	l := leases.Watch(leases.Config{
		Client: w.members.Client(stutteringMember + 1),
		Prefix: procs.Prefix, // a prefix of workPrefix, too
		Leader: func(ctx context.Context) (leader, term uint64, ok bool) {
			st, err := w.members.Status(ctx, stutteringMember+1)
			if err != nil || st.Leader == 0 || st.Leader == w.stutteringID {
				return 0, 0, false
			}
			return st.Leader, st.RaftTerm, true
		},
		Owner: func(key, value string) string {
			for _, s := range []*side{w.a, w.b} {
				for of, n := range map[string]*procs.Node{ofNodes: s.node, ofWorkers: s.worker} {
					if value == n.Address || strings.HasSuffix(key, n.Address) {
						return of + s.name
					}
				}
			}
			return ""
		}})
	w.Cleanup(func() { l.End() })
	return l
}
