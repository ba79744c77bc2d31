package leasequeue

import (
	"testing"

	"github.com/goverse/goverse/internal/test/schedule"
)

// suite runs real engines on a model of etcd. The seed determines the requests, the faults and their times, and the
// delivery of each request. Two of three seeds are reproducible to the letter, and the others nearly.
var suite = newSuite()

func newSuite() *schedule.Suite {
	s := schedule.NewSuite("queues", 200)
	s.Play, s.Events, s.Enough = playSchedule, requiredEvents(), 200
	return s
}

func TestSchedules(t *testing.T) { suite.Run(t) }
