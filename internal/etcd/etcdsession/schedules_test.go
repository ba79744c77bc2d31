package etcdsession

import (
	"testing"

	"github.com/goverse/goverse/internal/test/schedule"
)

var suite = newSuite()

func newSuite() *schedule.Suite {
	s := schedule.NewSuite("session", 150)
	s.Play, s.Events, s.Enough = play, []string{leasesEnded}, 20
	return s
}

// Whatever the members of etcd do, etcd ends no lease of a valid session, no session is given up as revoked whose lease
// stands, and once they work again every process soon has a session.
func TestSchedules(t *testing.T) { suite.Run(t) }
