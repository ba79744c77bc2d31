package diagnosis

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/goverse/goverse/internal/crash/suspicion"
)

// diagnoseAddresses checks that each node answers at its advertised address.
func diagnoseAddresses(f Facts) []Finding {
	if f.State == nil || len(f.Nodes) == 0 {
		return nil
	}
	c := findings{check: CheckAddresses}
	for _, n := range f.Nodes {
		detail := ""
		if n.Detail != "" {
			detail = " (" + n.Detail + ")"
		}
		switch n.AnswerKind {
		case Another:
			registered := ""
			if m := f.State.Snapshot.Member(n.Address); m != nil {
				registered = m.InstanceID
			}
			c.add(Problem, "give each process an --advertise of its own; if the node was just started again there, look again "+
				"when the former lease has run out",
				"at the address of the node %s another process answers (%s, and %s is registered)", n.Address, n.Instance,
				registered)
		case Refused:
			c.add(Problem, "start the node again, or correct its --advertise: if it runs, the others take it for dead and "+
				"cannot call it", "no process listens at the address of the node %s", n.Address)
		case NotNode:
			c.add(Problem, "correct its --advertise", "what answers at the address of the node %s is no node%s", n.Address,
				detail)
		case Unresolved:
			c.add(Problem, "give a name that resolves, or an IP address, as its --advertise", "the name in the address of the "+
				"node %s is unknown here%s", n.Address, detail)
		case Silent:
			c.add(Warning, "check the network and firewalls between here and there, its --advertise, and --node-cert, "+
				"--node-key and --node-ca if nodes use TLS; what counts is whether the other nodes reach it",
				"the node %s does not answer from here%s", n.Address, detail)
		}
	}
	if f.NodesLeft > 0 {
		c.add(Note, "", "%s were not asked", formatCount(f.NodesLeft, "further node"))
	}
	return c.orOKFinding("%s at the advertised address, as the process that is registered", formatAnswering(len(f.Nodes)))
}

func formatAnswering(n int) string {
	if n == 1 {
		return "1 node answers"
	}
	return fmt.Sprintf("%d nodes answer", n)
}

// diagnoseStatus checks the status that nodes report over HTTP.
func diagnoseStatus(f Facts) []Finding {
	c := findings{check: CheckHTTP}
	asked := 0
	for _, n := range f.Nodes {
		if n.HTTP == nil {
			continue
		}
		asked++
		switch {
		case n.HTTP.Untrusted:
			c.add(Note, "give the authority's file with --http-ca", "the status of the node %s at %s has a certificate that is "+
				"not trusted here: %s", n.Address, n.HTTP.Address, n.HTTP.Failed)
		case namesAnyInterface(n.HTTP.Address):
			c.add(Warning, "give its --http (or Config.HTTPAddress) a host that others reach", "the node %s says that its "+
				"HTTP is at %s, which means another machine to every other host: no caller can be sent there, as by leaderonly",
				n.Address, n.HTTP.Address)
		case n.HTTP.Failed != "":
			c.add(Note, "give an --http that is reached from where it is wanted; nodes do not need it", "the status of the "+
				"node %s at %s does not answer from here: %s", n.Address, n.HTTP.Address, n.HTTP.Failed)
		case !n.HTTP.Ready:
			c.add(Warning, "look for the reason in its log", "the node %s says that it is not ready: its session or its view "+
				"of the cluster is not fresh, or it stops", n.Address)
		}
	}
	if asked == 0 {
		return nil
	}
	return c.orOKFinding("%s over HTTP, and ready", formatAnswering(asked))
}

// namesAnyInterface reports whether an HTTP address names no host, but every interface.
func namesAnyInterface(address string) bool {
	if _, after, ok := strings.Cut(address, "://"); ok {
		address = after
	}
	at, err := netip.ParseAddrPort(address)
	return strings.HasPrefix(address, ":") || err == nil && at.Addr().IsUnspecified()
}

// diagnoseCrashDetection checks that the other nodes would notice the crash of each node.
func diagnoseCrashDetection(f Facts) []Finding {
	if f.State == nil || len(f.State.Snapshot.MembersWithServer()) < 2 {
		return nil
	}
	c := findings{check: CheckCrashes}
	for _, a := range f.State.Snapshot.Accusations {
		if a.Removed {
			continue // its node is gone, and the accusation goes too
		}
		c.add(Warning, "if it runs: check its --advertise and the network between the two", "the node %s is accused of "+
			"being gone by %s: %s", a.Address, cmp.Or(f.State.Snapshot.AccuserAddress(a), a.Accuser), a.Evidence)
	}
	addSilentNodes(f, &c)
	addFarNodes(f, &c)
	for _, n := range f.Nodes {
		if n.HTTP != nil && n.HTTP.Failed == "" && n.HTTP.Ready && (n.HTTP.Watches == 0 || n.HTTP.Watchers == 0) {
			c.add(Warning, "check that the nodes reach each other's addresses, and that --crash-detection is on everywhere",
				"the node %s watches %d others and is watched by %d: a crash is noticed only when a lease runs out", n.Address,
				n.HTTP.Watches, n.HTTP.Watchers)
		}
	}
	return c.orOKFinding("each node is near enough to etcd that a crash can be noticed before its lease runs out")
}

// addFarNodes checks that each node is near enough to etcd to be replaced before its lease runs out.
func addFarNodes(f Facts, c *findings) {
	timeouts := map[string]time.Duration{}
	for _, n := range f.Nodes {
		if n.HTTP != nil {
			timeouts[n.Address] = n.HTTP.SilenceTimeout
		}
	}
	for _, m := range f.State.Snapshot.MembersWithServer() {
		trip, ttl, timeout := m.RoundTrip(), time.Duration(m.TTL)*time.Second, timeouts[m.Address]
		switch {
		case suspicion.TooFar(trip, ttl):
			c.add(Warning, fmt.Sprintf("run it nearer to etcd, or raise its --ttl to %v", suspicion.LeastTTL(trip)),
				"the node %s is so far from etcd (%v for one request, a TTL of %v) that it is left to its lease: if its process "+
					"dies, the others wait until that has run out", m.Address, trip, ttl)
		case suspicion.TooFarForSilence(trip, timeout):
			c.add(Warning, fmt.Sprintf("run it nearer to etcd, or raise its --silence-timeout to %v",
				suspicion.LeastSilenceTimeoutAt(trip)),
				"the node %s is so far from etcd (%v for one request, a silence time-out of %v) that it has no silence time-out: "+
					"if it stands still or is cut off, the others wait until its lease has run out", m.Address, trip, timeout)
		}
	}
}

// addSilentNodes checks that each node answers the nodes that watch it.
func addSilentNodes(f Facts, c *findings) {
	s := f.State.Snapshot
	leader := s.Leader()
	for _, m := range s.Members {
		all, longest := s.SilencesOf(m), time.Duration(0)
		for _, x := range all {
			longest = max(longest, x.SilentFor())
		}
		if len(all) == 0 {
			continue
		}
		what, follows := "the node", "calls of its objects wait, and its shards and locks stay with it"
		if leader.Member && leader.Lease == m.Lease {
			what, follows = "the leader,", "it may stand still: until it goes on, is removed for its silence, or its "+
				"lease ends, no other node leads in its place"
		}
		c.add(Problem, "look whether its process is stopped, swaps or lacks processor time, and at the network; if it does "+
			"not go on, end it: another node takes over at once",
			"%s %s does not answer: for %v at least, seen by %s; %s", what, m.Address, longest.Truncate(time.Second),
			formatCount(len(all), "node"), follows)
	}
}
