package nodetest

import (
	"sync"
	"testing"
	"time"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/clustertest"
)

// Sampler asks all nodes many times a millisecond which of them leads, and notes overlaps: two nodes that lead
// at the same time. It is faster than package history, and keeps nothing else. The numbers are to be read after
// End.
type Sampler struct {
	Fallback int   // times that a node reported fallback
	Samples  int64 // passes

	c        *clustertest.Cluster
	stop     chan struct{}
	wg       sync.WaitGroup
	overlaps []string
}

// Sample samples the nodes that c has now, until End.
func Sample(c *clustertest.Cluster) *Sampler {
	s, nodes := &Sampler{c: c, stop: make(chan struct{})}, c.Nodes()
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
func token(n *clustertest.Node) int64 {
	if m := n.Cluster().GetConsensusManager(); m != nil && m.IsLeader() {
		if t := n.Cluster().Term(); t != nil {
			return t.Token()
		}
	}
	return 0
}

// pass proves an overlap by order alone: a leads, then b is seen to lead, then a
// still leads by the same term, which it cannot have left in between.
func (s *Sampler) pass(nodes []*clustertest.Node) {
	s.Samples++
	for i, a := range nodes {
		if a.Cluster().Status().Mode == election.ModeFallback {
			s.Fallback++
		}
		first := token(a)
		if first == 0 {
			continue
		}
		for j, b := range nodes {
			if j != i && token(b) != 0 && token(a) == first {
				s.overlaps = append(s.overlaps, s.c.Describe())
			}
		}
	}
}

// End stops sampling and fails the test if two nodes ever led at once.
func (s *Sampler) End(t testing.TB) {
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
