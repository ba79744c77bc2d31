package etcdsession

import (
	"flag"
	"testing"
)

var (
	schedules = flag.Int("session.schedules", 150, "how many random schedules of sessions over three members of etcd")
	firstSeed = flag.Uint64("session.seed", 1, "the first one's seed")
)

// Whatever the members of etcd do, etcd ends no lease of a valid session, and once they work again every
// process soon has a session.
func TestSchedules(t *testing.T) {
	total := 0
	for n := range uint64(*schedules) {
		failure, log, ended := simulate(t, *firstSeed+n)
		if total += ended; failure != "" {
			t.Fatalf("seed %d: %s\n%s", *firstSeed+n, failure, log)
		}
	}
	t.Logf("%d schedules, etcd ended %d leases", *schedules, total)
	if total == 0 {
		t.Error("etcd ended no lease: nothing was shown")
	}
}
