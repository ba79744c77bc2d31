package clustertest

import (
	"sync"
	"testing"
	"time"

	"github.com/goverse/goverse/cluster/election"
)

// sampler asks all nodes again and again who leads, and notes overlaps: two
// nodes that lead at the same time.
type sampler struct {
	stop     chan struct{}
	wg       sync.WaitGroup
	overlaps []string
	fallback int   // times that a node reported fallback
	samples  int64 // passes
}

// sample samples c's nodes of now until end.
func sample(c *Cluster) *sampler {
	s, nodes := &sampler{stop: make(chan struct{})}, c.Nodes()
	s.wg.Go(func() {
		// Less than a tenth of the shortest hand-over; without any pause one of few
		// processors would do nothing else.
		tick := time.NewTicker(50 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
				s.pass(nodes)
			}
		}
	})
	return s
}

// token is of the term that n leads by at this instant, 0 if it does not.
func token(n *Node) int64 {
	if m := n.cluster.GetConsensusManager(); m != nil && m.IsLeader() {
		if t := n.cluster.Term(); t != nil {
			return t.Token()
		}
	}
	return 0
}

// pass proves an overlap by order alone: a leads, then b is seen to lead, then a
// still leads by the same term, which it cannot have left in between.
func (s *sampler) pass(nodes []*Node) {
	s.samples++
	for i, a := range nodes {
		if a.cluster.Status().Mode == election.ModeFallback {
			s.fallback++
		}
		first := token(a)
		if first == 0 {
			continue
		}
		for j, b := range nodes {
			if j != i && token(b) != 0 && token(a) == first {
				s.overlaps = append(s.overlaps, a.c.Describe())
			}
		}
	}
}

// end stops sampling and fails the test if two nodes ever led at once.
func (s *sampler) end(t *testing.T) {
	t.Helper()
	close(s.stop)
	s.wg.Wait()
	if len(s.overlaps) > 0 {
		t.Fatalf("two nodes led at once, %d times in %d samples; first:\n%s", len(s.overlaps), s.samples, s.overlaps[0])
	}
	if s.samples < 100 {
		t.Fatalf("only %d samples were taken: the machine is too busy to say anything", s.samples)
	}
}
