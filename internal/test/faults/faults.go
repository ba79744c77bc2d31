// Package faults is the catalogue of the faults that tests inject between a process and etcd. For each kind it
// has the name used in reports and recordings, and the means to begin and to end it. The random faults on whole
// clusters (integration/internal/chaos), those on locks (internal/leasequeue/etcdlock) and the tests of
// deadlines (cluster/leaderelection) use it. They decide how long a fault lasts and which effects to expect.
//
// The catalogue leaves out the faults that only one kind of test bed supports: those of real or simulated
// processes and members of etcd, and out-of-band changes. The users of this package implement these themselves.
package faults

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/test/schedule"
)

// Target is one process's connection to etcd. A test leaves out the parts that it does not have; faults of such
// parts do nothing.
type Target struct {
	Relays []*fault.Relay    // on its connections
	Client *etcdfault.Faults // of its client, if the client is in the test's process
}

// Fault is one kind of fault.
type Fault struct {
	// Name identifies the fault in reports and recordings.
	Name string

	begin func(t Target, rnd *rand.Rand)
}

// The kinds of faults at relays.
var (
	CutOff = relayFault("packets to and from etcd dropped", func(_ *rand.Rand) func(*fault.Relay) {
		return func(r *fault.Relay) { r.Blackhole(fault.Both) }
	})
	RequestsDropped = relayFault("requests to etcd dropped", func(_ *rand.Rand) func(*fault.Relay) {
		return func(r *fault.Relay) { r.Blackhole(fault.ToTarget) }
	})
	AnswersDropped = relayFault("answers of etcd dropped", func(_ *rand.Rand) func(*fault.Relay) {
		return func(r *fault.Relay) { r.Blackhole(fault.FromTarget) }
	})
	Delayed = relayFault("etcd's packets delayed", func(rnd *rand.Rand) func(*fault.Relay) {
		there, back := drawDelay(rnd), drawDelay(rnd)
		return func(r *fault.Relay) {
			r.Delay(fault.ToTarget, there)
			r.Delay(fault.FromTarget, back)
		}
	})
	Throttled = relayFault("etcd's packets throttled", func(rnd *rand.Rand) func(*fault.Relay) {
		rate := 500 + rnd.IntN(4000) // bytes a second
		return func(r *fault.Relay) { r.Throttle(fault.Both, rate) }
	})
	Reset = relayFault("connections to etcd reset", func(_ *rand.Rand) func(*fault.Relay) {
		return func(r *fault.Relay) { r.Reset(fault.Both) }
	})
	Refused = relayFault("connections to etcd refused", func(_ *rand.Rand) func(*fault.Relay) {
		return (*fault.Relay).Refuse
	})
)

// The kinds of faults at the client.
var (
	RequestsStuck = clientFault("requests stuck", (*etcdfault.Faults).CutOff)
	RenewalsStuck = clientFault("renewals stuck", (*etcdfault.Faults).StopRenewing)
	WatchFrozen   = clientFault(schedule.WatchFrozen, (*etcdfault.Faults).FreezeWatch)
)

func drawDelay(rnd *rand.Rand) time.Duration {
	return time.Duration(rnd.Int64N(int64(300 * time.Millisecond)))
}

// relayFault returns a fault that applies to all relays alike.
func relayFault(name string, draw func(rnd *rand.Rand) func(*fault.Relay)) Fault {
	return Fault{name, func(t Target, rnd *rand.Rand) {
		begin := draw(rnd)
		for _, r := range t.Relays {
			begin(r)
		}
	}}
}

func clientFault(name string, begin func(*etcdfault.Faults)) Fault {
	return Fault{name, func(t Target, _ *rand.Rand) {
		if t.Client != nil {
			begin(t.Client)
		}
	}}
}

// Begin begins the fault, which lasts until EndFaults; Reset is over on return. Delayed and Throttled draw their
// delay and rate from rnd; the others draw nothing.
func (f Fault) Begin(t Target, rnd *rand.Rand) { f.begin(t, rnd) }

// EndFaults ends every fault of the target.
func (t Target) EndFaults() error {
	var errs []error
	for _, r := range t.Relays {
		errs = append(errs, r.Heal())
	}
	if t.Client != nil {
		t.Client.Heal()
	}
	return errors.Join(errs...)
}

// Traffic returns the number of bytes that the relays have received.
func (t Target) Traffic() (sum int64) {
	for _, r := range t.Relays {
		sum += r.Traffic(fault.Both).Received
	}
	return sum
}

// Connections returns the number of connections that the relays have.
func (t Target) Connections() (sum int) {
	for _, r := range t.Relays {
		sum += r.Connections()
	}
	return sum
}
