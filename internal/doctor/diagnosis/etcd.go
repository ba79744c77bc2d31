package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goverse/goverse/internal/etcdversion"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/suspicion"
)

// endpoints judges whether each endpoint answers, and lets the user in.
func endpoints(f Facts) []Finding {
	answering := slices.ContainsFunc(f.Endpoints, func(e Endpoint) bool { return e.Failure == nil })
	var out []Finding
	for _, e := range f.Endpoints {
		found := Finding{Check: CheckEndpoints, Severity: OK, Says: e.Address + " answers"}
		switch {
		case e.Failure != nil:
			found.Severity, found.Says, found.Remedy = Problem, e.Failure.Says, e.Failure.Remedy
			if e.Failure.Kind == Denied {
				found.Check = CheckLogin
			} else if answering {
				found.Severity = Warning
				found.Remedy += "; the other endpoints are used meanwhile"
			}
		case e.Status != nil:
			found.Says = fmt.Sprintf("%s answers: etcd %s", e.Address, e.Status.Version)
			if e.Status.Leader == e.Status.MemberID && e.Status.Leader != 0 {
				found.Says += ", etcd's leader"
			}
		}
		out = append(out, found)
	}
	return out
}

// voters are the voting members of etcd, and how many of them answered at an endpoint.
func (f Facts) voters() (all, answering int) {
	for _, m := range f.Members {
		if m.Learner {
			continue
		}
		all++
		if slices.ContainsFunc(f.Endpoints, func(e Endpoint) bool { return e.Status != nil && e.Status.MemberID == m.ID }) {
			answering++
		}
	}
	return all, answering
}

// quorum judges whether etcd can decide anything, and what it stands beyond that.
func quorum(f Facts) []Finding {
	c := findings{check: CheckQuorum}
	all, answering := f.voters()
	needed := all/2 + 1
	heard := slices.ContainsFunc(f.Endpoints, func(e Endpoint) bool { return e.Status != nil || e.Health != "" })
	served := slices.ContainsFunc(f.Endpoints, Endpoint.served)
	failed := slices.ContainsFunc(f.Endpoints, func(e Endpoint) bool { return e.Failure != nil })
	switch {
	case !heard:
		return nil // which the endpoints say
	case !served && all > 0 && answering < needed:
		c.add(Problem, fmt.Sprintf("start the members that are down, or repair the network between them: %d must run",
			needed),
			"etcd has no quorum: %s, so that it decides nothing", share(answering, all))
		return c.all
	case !served && f.leaderless():
		c.add(Problem, "start the members that are down, or repair the network between them: more than half must run",
			"etcd has no leader: too few of its members reach each other, so that it decides nothing")
		return c.all
	case !served:
		return nil // which latency says
	case all > 0 && answering < all && failed:
		c.add(Warning, "start the missing members again", "of etcd, %s; %s", share(answering, all), spare(answering-needed))
	case all > 0 && answering < all:
		c.add(Note, "name all members in --etcd", "--etcd reaches %d of etcd's %d voting members: when those stop, nodes "+
			"do not reach the others", answering, all)
	case all == 2:
		c.add(Note, "run three members", "etcd has two members, and stands the loss of neither")
	}
	leaders := map[uint64]bool{}
	for _, e := range f.Endpoints {
		if e.Status == nil {
			continue
		}
		if e.Status.Leader == 0 {
			c.add(Warning, "repair the network between the members of etcd, or leave this one out of --etcd",
				"the member of etcd at %s sees no leader, and others do: it is cut off", e.Address)
			continue
		}
		leaders[e.Status.Leader] = true
	}
	if len(leaders) > 1 {
		c.add(Warning, "look again in some seconds: if it stays so, repair the network between the members of etcd",
			"the members of etcd do not agree on their leader")
	}
	name := ""
	for _, m := range f.Members {
		if leaders[m.ID] && m.Name != "" {
			name = ": " + m.Name
		}
	}
	if all == 0 {
		return c.orOK("etcd has a leader%s", name)
	}
	return c.orOK("etcd has a leader%s; %s", name, share(answering, all))
}

func share(answering, all int) string {
	return fmt.Sprintf("%d of %d voting members answer here", answering, all)
}

// leaderless reports whether an endpoint says that there is no leader.
func (f Facts) leaderless() bool {
	return slices.ContainsFunc(f.Endpoints, func(e Endpoint) bool {
		return e.Status != nil && e.Status.Leader == 0 || strings.Contains(e.Health, "NO LEADER")
	})
}

func spare(n int) string {
	if n <= 0 {
		return "it stands no further loss"
	}
	return fmt.Sprintf("it stands the loss of %d more", n)
}

// learners judges whether an endpoint is a member that serves no nodes.
func learners(f Facts) []Finding {
	c := findings{check: CheckLearners}
	for _, e := range f.Endpoints {
		if e.Status != nil && e.Status.Learner {
			c.add(Warning, "leave it out of --etcd until etcdctl member promote has made it a voting member",
				"the member of etcd at %s is a learner: it serves no reads that nodes need", e.Address)
		}
	}
	return c.all
}

// alarms judges whether etcd refuses writes.
func alarms(f Facts) []Finding {
	c := findings{check: CheckAlarms}
	heard := false
	for _, e := range f.Endpoints {
		said := e.Health
		if e.Status != nil {
			heard = true
			said += " " + strings.Join(e.Status.Errors, " ")
		}
		if strings.Contains(said, "NOSPACE") {
			c.add(Problem, "make space (etcdctl compact, then etcdctl defrag, or a larger --quota-backend-bytes), then "+
				"etcdctl alarm disarm", "etcd has the alarm NOSPACE: it refuses every write, and so each new session")
		}
		if strings.Contains(said, "CORRUPT") {
			c.add(Problem, "replace the damaged member from a healthy one's data, then etcdctl alarm disarm",
				"etcd has the alarm CORRUPT: its members do not hold the same data")
		}
	}
	if !heard {
		return c.all
	}
	return c.orOK("etcd has no alarm")
}

const (
	// defaultQuota is etcd's, where an old one does not say its own.
	defaultQuota = 2 << 30
	mebibyte     = 1 << 20
)

// space judges whether etcd's database nears its limit.
func space(f Facts) []Finding {
	c := findings{check: CheckSpace}
	var largest Status
	for _, e := range f.Endpoints {
		if e.Status == nil {
			continue
		}
		s := *e.Status
		if s.Size > largest.Size {
			largest = s
		}
		quota, known := s.Quota, "its quota"
		if quota <= 0 {
			quota, known = defaultQuota, "etcd's default quota, for this version does not say its own"
		}
		if s.Size > quota/5*4 {
			c.add(Warning, "etcdctl compact and etcdctl defrag, or a larger --quota-backend-bytes of etcd",
				"the database of etcd at %s has %d MiB, of which %d are in use, of the %d MiB that are %s: when it is full, etcd "+
					"refuses writes", e.Address, s.Size/mebibyte, s.InUse/mebibyte, quota/mebibyte, known)
		}
	}
	if largest.Size == 0 {
		return c.all
	}
	if largest.Quota <= 0 {
		return c.orOK("etcd's database has %d MiB; this version does not say its quota", largest.Size/mebibyte)
	}
	return c.orOK("etcd's database has %d MiB of %d", largest.Size/mebibyte, largest.Quota/mebibyte)
}

// versions judges etcd's versions, and those of the nodes.
func versions(f Facts) []Finding {
	c := findings{check: CheckVersions}
	var etcd []string
	for _, e := range f.Endpoints {
		if e.Status == nil {
			continue
		}
		if !slices.Contains(etcd, e.Status.Version) {
			etcd = append(etcd, e.Status.Version)
		}
		if etcdversion.RevokesRenewed(e.Status.Version) {
			c.add(Warning, etcdversion.Upgrade, "etcd %s at %s can revoke leases that were renewed (etcd's issue 15247), so "+
				"that two nodes may lead for a moment", e.Status.Version, e.Address)
		}
	}
	if len(etcd) > 1 {
		c.add(Note, "finish the upgrade of etcd", "the members of etcd have different versions: %s", listed(etcd))
	}
	if f.State != nil {
		var nodes []string
		for _, m := range f.State.Snapshot.Members {
			if m.Version != "" && !slices.Contains(nodes, m.Version) {
				nodes = append(nodes, m.Version)
			}
		}
		if len(nodes) > 1 {
			c.add(Note, "finish the upgrade of the nodes", "nodes run different versions: %s", listed(nodes))
		}
	}
	if len(etcd) == 0 {
		return c.all
	}
	if len(f.Members) > 1 {
		return c.orOK("etcd %s; a leader of it that stood still for most of a TTL can revoke leases that were renewed, for "+
			"which there are tokens", listed(etcd))
	}
	return c.orOK("etcd %s", listed(etcd))
}

// roundShare is the part of the TTL that one request of a session's round has.
const roundShare = 5

// latency judges whether etcd answers fast enough for sessions of that TTL, and for crash detection.
func latency(f Facts) []Finding {
	c := findings{check: CheckLatency}
	bound := f.TTL / roundShare
	var slowest time.Duration
	for _, e := range f.Endpoints {
		if e.Failure != nil || e.Status != nil && e.Status.Learner {
			continue
		}
		if e.ReadError != "" {
			severity := Warning
			if !slices.ContainsFunc(f.Endpoints, Endpoint.served) {
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
		read, write := median(e.Reads), median(e.Writes)
		slowest = max(slowest, read, write)
		far := suspicion.At(f.TTL, e.Reads...).RoundTrip()
		needed := func(d time.Duration) time.Duration {
			return (roundShare*d + time.Second - 1).Truncate(time.Second)
		}
		remedy := func(d time.Duration) string {
			return fmt.Sprintf("raise --ttl to %v or more, run the nodes nearer to etcd, or give it a faster disk", needed(d))
		}
		switch {
		case read > bound || write > bound:
			c.add(Problem, remedy(max(read, write)), "etcd at %s is too slow for a TTL of %v: a read takes %s and a write %s, "+
				"and a session gives a request %s", e.Address, f.TTL, short(read), short(write), short(bound))
		case slices.Max(e.Reads) > bound || len(e.Writes) > 0 && slices.Max(e.Writes) > bound:
			c.add(Warning, remedy(slices.Max(append(slices.Clone(e.Writes), e.Reads...))), "etcd at %s was too slow once for "+
				"a TTL of %v: up to %s for a read and %s for a write, and a session gives a request %s", e.Address, f.TTL,
				short(slices.Max(e.Reads)), short(maxOf(e.Writes)), short(bound))
		case suspicion.LeftToLease(&state.Member{Record: state.Record{TTL: int64(f.TTL / time.Second),
			RoundTripMS: far.Milliseconds()}}):
			c.add(Warning, fmt.Sprintf("raise --ttl to %v, or run the nodes nearer to etcd", suspicion.TTLFor(far)),
				"etcd at %s is so far (%s) that crash detection leaves a node here to its lease", e.Address, short(read))
		}
	}
	if slowest == 0 {
		return c.all
	}
	return c.orOK("etcd answers within %s, and a session with a TTL of %v gives it %s", short(slowest), f.TTL,
		short(bound))
}

func maxOf(all []time.Duration) time.Duration {
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

// ttl judges whether etcd grants what a node asks for.
func ttl(f Facts) []Finding {
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
		for _, m := range f.State.Snapshot.Members {
			if has := time.Duration(m.TTL) * time.Second; m.TTL > 0 && has != f.granted() {
				c.add(Note, "give all nodes, and goversed doctor, the same --ttl", "the node %s has a TTL of %v, and etcd is "+
					"judged here by %v", m.Address, has, f.TTL)
				break
			}
		}
	}
	return c.orOK("etcd grants the TTL that is asked for, %v", f.TTL)
}

// granted is the TTL that a node with the flags of the doctor would have.
func (f Facts) granted() time.Duration {
	most := f.TTL
	for _, e := range f.Endpoints {
		most = max(most, e.Granted)
	}
	return most
}

// certain is by how much two clocks have to differ before it is said. HTTP dates are exact to a second.
const certain = 2 * time.Second

// clocks judges how far apart the clocks are, of etcd's members, of nodes, and of this machine.
func clocks(f Facts) []Finding {
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
	if apart := last.AtLeast - first.AtMost; apart > certain {
		c.add(Warning, "synchronise the clocks, with NTP: no term and no lease counts by them, but certificates, tokens of "+
			"etcd's access control and every log do",
			"the clock of %s is at least %s ahead of that of %s", last.name, short(apart), first.name)
	}
	return c.orOK("the clocks of %d processes agree, as far as the dates of HTTP show", len(all))
}

// unread says that there is more that nobody looked at.
func unread(f Facts) []Finding {
	if f.Unread == "" {
		return nil
	}
	c := findings{check: CheckUnread}
	if slices.ContainsFunc(f.Endpoints, Endpoint.served) {
		c.add(Warning, "run goversed doctor again; if it stays so, etcd is too busy", "the cluster itself was not looked "+
			"at, although etcd answers: %s", f.Unread)
		return c.all
	}
	c.add(Note, "run goversed doctor again when that is repaired", "the cluster itself was not looked at: %s", f.Unread)
	return c.all
}
