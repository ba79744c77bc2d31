// Package faults is the catalogue of what tests do to the way between a process and etcd: the name that reports
// and recordings have for each kind of fault, how it is done, and how it is undone. The random faults on whole
// clusters (integration/internal/chaos), those on locks (internal/leasequeue/etcdlock) and the tests of deadlines
// (cluster/leaderelection) take theirs from here; how long one lasts and what must come of it is theirs.
//
// It does not have what can be done to one kind of test bed only: to processes and members of etcd that are real
// or simulated, and out-of-band changes. For these, see the users.
package faults

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/clustertest/fault"
)

// Target is one process's way to etcd. What a test has none of is left out; a fault of what is left out does
// nothing.
type Target struct {
	Relays []*fault.Relay      // on its connections
	Client *clustertest.Faults // of its client, where that is in the process of the test
}

// Fault is one kind.
type Fault struct {
	// Name is what reports and recordings call it.
	Name string

	begin func(t Target, rnd *rand.Rand)
}

// The kinds at relays.
var (
	CutOff = atRelays("packets to and from etcd dropped", func(_ *rand.Rand) func(*fault.Relay) {
		return func(r *fault.Relay) { r.Blackhole(fault.Both) }
	})
	RequestsDropped = atRelays("requests to etcd dropped", func(_ *rand.Rand) func(*fault.Relay) {
		return func(r *fault.Relay) { r.Blackhole(fault.ToTarget) }
	})
	AnswersDropped = atRelays("answers of etcd dropped", func(_ *rand.Rand) func(*fault.Relay) {
		return func(r *fault.Relay) { r.Blackhole(fault.FromTarget) }
	})
	Delayed = atRelays("etcd's packets delayed", func(rnd *rand.Rand) func(*fault.Relay) {
		there, back := delay(rnd), delay(rnd)
		return func(r *fault.Relay) {
			r.Delay(fault.ToTarget, there)
			r.Delay(fault.FromTarget, back)
		}
	})
	Throttled = atRelays("etcd's packets throttled", func(rnd *rand.Rand) func(*fault.Relay) {
		rate := 500 + rnd.IntN(4000) // bytes a second
		return func(r *fault.Relay) { r.Throttle(fault.Both, rate) }
	})
	Reset = atRelays("connections to etcd reset", func(_ *rand.Rand) func(*fault.Relay) {
		return func(r *fault.Relay) { r.Reset(fault.Both) }
	})
	Refused = atRelays("connections to etcd refused", func(_ *rand.Rand) func(*fault.Relay) {
		return (*fault.Relay).Refuse
	})
)

// The kinds at the client.
var (
	RequestsStuck = atClient("requests stuck", (*clustertest.Faults).CutOff)
	RenewalsStuck = atClient("renewals stuck", (*clustertest.Faults).StopRenewing)
	WatchFrozen   = atClient("watch frozen", (*clustertest.Faults).FreezeWatch)
)

func delay(rnd *rand.Rand) time.Duration {
	return time.Duration(rnd.Int64N(int64(300 * time.Millisecond)))
}

// atRelays is done to all relays alike.
func atRelays(name string, draw func(rnd *rand.Rand) func(*fault.Relay)) Fault {
	return Fault{name, func(t Target, rnd *rand.Rand) {
		begin := draw(rnd)
		for _, r := range t.Relays {
			begin(r)
		}
	}}
}

func atClient(name string, begin func(*clustertest.Faults)) Fault {
	return Fault{name, func(t Target, _ *rand.Rand) {
		if t.Client != nil {
			begin(t.Client)
		}
	}}
}

// Do begins the fault, which lasts until Undo; Reset is over when Do returns. What a kind leaves open, such as
// how slow the packets become, is drawn; only Delayed and Throttled draw.
func (f Fault) Do(t Target, rnd *rand.Rand) { f.begin(t, rnd) }

// Undo ends every fault of the target.
func (t Target) Undo() error {
	var errs []error
	for _, r := range t.Relays {
		errs = append(errs, r.Heal())
	}
	if t.Client != nil {
		t.Client.Heal()
	}
	return errors.Join(errs...)
}

// Traffic is how many bytes the relays have received.
func (t Target) Traffic() (sum int64) {
	for _, r := range t.Relays {
		sum += r.Traffic(fault.Both).Received
	}
	return sum
}

// Connections is how many connections the relays have.
func (t Target) Connections() (sum int) {
	for _, r := range t.Relays {
		sum += r.Connections()
	}
	return sum
}
