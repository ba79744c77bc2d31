package diagnosis

import (
	"fmt"
	"slices"
	"time"

	"github.com/goverse/goverse/internal/crash/suspicion"
)

// roundShare is the divisor of the TTL that yields the time for one request of a session's round.
const roundShare = 5

// diagnoseLatency checks that etcd answers fast enough for sessions with that TTL, and for crash detection.
func diagnoseLatency(f Facts) []Finding {
	c := findings{check: CheckLatency}
	bound := f.TTL / roundShare
	var slowest time.Duration
	for _, e := range f.Endpoints {
		if e.Failure != nil || e.Status != nil && e.Status.Learner {
			continue
		}
		if e.ReadError != "" {
			severity := Warning
			if !slices.ContainsFunc(f.Endpoints, Endpoint.servedReads) {
				severity = Problem
			}
			c.add(severity, "look at etcd's log and quorum, and at the network", "etcd at %s answers no linearizable read: %s",
				e.Address, e.ReadError)
			continue
		}
		if e.WriteError != "" {
			c.add(Problem, "look at etcd's log, its alarms and its disk", "etcd at %s creates no lease: %s", e.Address,
				e.WriteError)
		}
		if e.RenewError != "" {
			c.add(Problem, "name etcd's members as endpoints, if a proxy such as etcd grpc-proxy is between: etcd with access "+
				"control on refuses its renewals; else look at etcd's log", "etcd at %s does not renew a lease: %s", e.Address,
				e.RenewError)
		}
		read, write := median(e.Reads), median(e.Writes)
		slowest = max(slowest, read, write)
		far := suspicion.NewDistance(f.TTL, 0, suspicion.NewTrips(0, e.Reads...)...).RoundTrip()
		needed := func(d time.Duration) time.Duration {
			return (roundShare*d + time.Second - 1).Truncate(time.Second)
		}
		remedy := func(d time.Duration) string {
			return fmt.Sprintf("raise --ttl to %v or more, run the nodes nearer to etcd, or give it a faster disk", needed(d))
		}
		switch {
		case read > bound || write > bound:
			c.add(Problem, remedy(max(read, write)), "etcd at %s is too slow for a TTL of %v: a read takes %s and a write %s, "+
				"and a session gives a request %s", e.Address, f.TTL, formatDuration(read), formatDuration(write),
				formatDuration(bound))
		case slices.Max(e.Reads) > bound || len(e.Writes) > 0 && slices.Max(e.Writes) > bound:
			c.add(Warning, remedy(slices.Max(append(slices.Clone(e.Writes), e.Reads...))), "etcd at %s was too slow once for "+
				"a TTL of %v: up to %s for a read and %s for a write, and a session gives a request %s", e.Address, f.TTL,
				formatDuration(slices.Max(e.Reads)), formatDuration(longestOf(e.Writes)), formatDuration(bound))
		case suspicion.TooFar(far, f.TTL):
			c.add(Warning, fmt.Sprintf("raise --ttl to %v, or run the nodes nearer to etcd", suspicion.LeastTTL(far)),
				"etcd at %s is so far (%s) that crash detection leaves a node here to its lease", e.Address, formatDuration(read))
		}
	}
	if slowest == 0 {
		return c.all
	}
	return c.orOKFinding("etcd answers within %s, and a session with a TTL of %v gives it %s", formatDuration(slowest),
		f.TTL,
		formatDuration(bound))
}

func longestOf(all []time.Duration) time.Duration {
	var most time.Duration
	for _, d := range all {
		most = max(most, d)
	}
	return most
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// diagnoseTTL checks that etcd grants the TTL that nodes request.
func diagnoseTTL(f Facts) []Finding {
	c := findings{check: CheckTTL}
	granted := false
	for _, e := range f.Endpoints {
		granted = granted || e.Granted > 0
		if e.Granted > f.TTL {
			c.add(Warning, fmt.Sprintf("set --ttl %v, or a shorter --election-timeout of etcd, of which 1.5 times is the "+
				"least TTL",
				e.Granted),
				"etcd grants a TTL of %v where %v are asked for: that is how long the others wait for a node that vanished",
				e.Granted, f.TTL)
		}
	}
	if !granted {
		return c.all
	}
	if f.State != nil {
		for _, m := range f.State.Snapshot.MembersWithServer() {
			if has := time.Duration(m.TTL) * time.Second; m.TTL > 0 && has != f.grantedTTL() {
				c.add(Note, "give all nodes, and goversed doctor, the same --ttl", "the node %s has a TTL of %v, and etcd is "+
					"judged here by %v", m.Address, has, f.TTL)
				break
			}
		}
	}
	return c.orOKFinding("etcd grants the TTL that is asked for, %v", f.TTL)
}

// grantedTTL returns the TTL that a node with the doctor's flags would get.
func (f Facts) grantedTTL() time.Duration {
	most := f.TTL
	for _, e := range f.Endpoints {
		most = max(most, e.Granted)
	}
	return most
}

// clockTolerance is the difference between two clocks above which it is reported. HTTP dates are exact to a
// second.
const clockTolerance = 2 * time.Second

// diagnoseClocks checks that the clocks of etcd's members, of nodes, and of this machine agree.
func diagnoseClocks(f Facts) []Finding {
	c := findings{check: CheckClocks}
	type clock struct {
		name string
		Clock
	}
	all := []clock{{name: "this machine"}}
	for _, e := range f.Endpoints {
		if e.Clock != nil {
			all = append(all, clock{"etcd at " + e.Address, *e.Clock})
		}
	}
	for _, n := range f.Nodes {
		if n.HTTP != nil && n.HTTP.Clock != nil {
			all = append(all, clock{"the node " + n.Address, *n.HTTP.Clock})
		}
	}
	if len(all) == 1 {
		return nil
	}
	first, last := all[0], all[0]
	for _, one := range all {
		if one.AtMost < first.AtMost {
			first = one
		}
		if one.AtLeast > last.AtLeast {
			last = one
		}
	}
	if apart := last.AtLeast - first.AtMost; apart > clockTolerance {
		c.add(Warning, "synchronise the clocks, with NTP: no term and no lease counts by them, but certificates, tokens of "+
			"etcd's access control and every log do",
			"the clock of %s is at least %s ahead of that of %s", last.name, formatDuration(apart), first.name)
	}
	return c.orOKFinding("the clocks of %d processes agree, as far as the dates of HTTP show", len(all))
}
