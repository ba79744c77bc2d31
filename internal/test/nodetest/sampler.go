package nodetest

import (
	"sync"
	"testing"
	"time"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/clustertest"
)

// Sampler asks all nodes many times a millisecond which of them leads, and records overlaps: two nodes that
// lead at once. It is faster than package history and records nothing else. Read its counters only after Stop.
type Sampler struct {
	Fallback int   // the number of reports of fallback
	Samples  int64 // the number of passes

	c        *clustertest.Cluster
	stop     chan struct{}
	wg       sync.WaitGroup
	overlaps []string
}

// StartSampler samples the present nodes of c until Stop.
func StartSampler(c *clustertest.Cluster) *Sampler {
	s, nodes := &Sampler{c: c, stop: make(chan struct{})}, c.Nodes()
	s.wg.Go(func() {
		// Less than a tenth of the shortest handover. Without a pause, the loop would occupy one of few
		// processors.
		tick := time.NewTicker(50 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
				s.sampleOnce(nodes)
			}
		}
	})
	return s
}

// leaderToken returns the token of the term that n leads by at this instant, or 0 if n does not lead.
func leaderToken(n *clustertest.Node) int64 {
	if m := n.Cluster().GetConsensusManager(); m != nil && m.IsLeader() {
		if t, leads := n.Cluster().Term(); leads {
			return t.Token()
		}
	}
	return 0
}

// sampleOnce proves an overlap by order alone: a leads, then b is seen to lead, then a still leads by the same term,
// which it cannot have left in between.
func (s *Sampler) sampleOnce(nodes []*clustertest.Node) {
	s.Samples++
	for i, a := range nodes {
		if a.Cluster().Status().Mode == leaderelection.ModeFallback {
			s.Fallback++
		}
		first := leaderToken(a)
		if first == 0 {
			continue
		}
		for j, b := range nodes {
			if j != i && leaderToken(b) != 0 && leaderToken(a) == first {
				s.overlaps = append(s.overlaps, s.c.Describe())
			}
		}
	}
}

// Stop stops sampling and fails the test if two nodes ever led at once.
func (s *Sampler) Stop(t testing.TB) {
	t.Helper()
	close(s.stop)
	s.wg.Wait()
	if len(s.overlaps) > 0 {
		t.Fatalf("two nodes led at once, %d times in %d samples; first:\n%s", len(s.overlaps), s.Samples, s.overlaps[0])
	}
	if s.Samples < 100 {
		t.Fatalf("only %d samples were taken: the machine is too busy to say anything", s.Samples)
	}
}
