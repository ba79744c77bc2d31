package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goverse/goverse/internal/etcd/etcdversion"
	"github.com/goverse/goverse/internal/state"
)

// diagnoseEndpoints checks that each endpoint answers, and admits the user.
func diagnoseEndpoints(f Facts) []Finding {
	answering := slices.ContainsFunc(f.Endpoints, func(e Endpoint) bool { return e.Failure == nil })
	var out []Finding
	for _, e := range f.Endpoints {
		found := Finding{Check: CheckEndpoints, Severity: OK, Description: e.Address + " answers"}
		switch {
		case e.Failure != nil:
			found.Severity, found.Description, found.Remedy = Problem, e.Failure.Description, e.Failure.Remedy
			if e.Failure.Kind == Denied {
				found.Check = CheckLogin
			} else if answering {
				found.Severity = Warning
				found.Remedy += "; the other endpoints are used meanwhile"
			}
		case e.Status != nil:
			found.Description = fmt.Sprintf("%s answers: etcd %s", e.Address, e.Status.Version)
			if e.Status.Leader == e.Status.MemberID && e.Status.Leader != 0 {
				found.Description += ", etcd's leader"
			}
		}
		out = append(out, found)
	}
	return append(out, diagnosePartialOutage(f)...)
}

// diagnosePartialOutage counts the endpoints that do not answer if others do, and suggests addresses to use instead.
func diagnosePartialOutage(f Facts) []Finding {
	c := findings{check: CheckEndpoints}
	silent := 0
	for _, e := range f.Endpoints {
		if e.Failure != nil {
			silent++
		}
	}
	if silent == 0 || silent == len(f.Endpoints) || len(f.Endpoints) < 2 {
		return nil
	}
	remedy := "start those members again"
	if named := advertisedAddresses(f); len(named) > 0 {
		remedy += "; or if they are at other addresses now, name these: etcd's members advertise " + joinNames(named)
	}
	c.add(Warning, remedy, "%d of %d endpoints do not answer", silent, len(f.Endpoints))
	return c.all
}

// advertisedAddresses returns the addresses that the members of etcd advertise to clients.
func advertisedAddresses(f Facts) (out []string) {
	for _, m := range f.Members {
		if !m.Learner {
			out = append(out, m.Clients...)
		}
	}
	return out
}

// countVoters returns the number of voting members of etcd, and of those that answered at an endpoint.
func (f Facts) countVoters() (all, answering int) {
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

// diagnoseQuorum checks that etcd has a quorum, and how many more failures it tolerates.
func diagnoseQuorum(f Facts) []Finding {
	c := findings{check: CheckQuorum}
	all, answering := f.countVoters()
	needed := all/2 + 1
	heard := slices.ContainsFunc(f.Endpoints, func(e Endpoint) bool { return e.Status != nil || e.Health != "" })
	served := slices.ContainsFunc(f.Endpoints, Endpoint.servedReads)
	failed := slices.ContainsFunc(f.Endpoints, func(e Endpoint) bool { return e.Failure != nil })
	switch {
	case !heard:
		return nil // diagnoseEndpoints reports it
	case !served && all > 0 && answering < needed:
		c.add(Problem, fmt.Sprintf("start the members that are down, or repair the network between them: %d must run",
			needed),
			"etcd has no quorum: %s, so that it decides nothing", formatShare(answering, all))
		return c.all
	case !served && f.etcdLeaderless():
		c.add(Problem, "start the members that are down, or repair the network between them: more than half must run",
			"etcd has no leader: too few of its members reach each other, so that it decides nothing")
		return c.all
	case !served:
		return nil // diagnoseLatency reports it
	case all > 0 && answering < all && failed:
		c.add(Warning, "start the missing members again", "of etcd, %s; %s", formatShare(answering, all),
			formatSpare(answering-needed))
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
		return c.orOKFinding("etcd has a leader%s", name)
	}
	return c.orOKFinding("etcd has a leader%s; %s", name, formatShare(answering, all))
}

func formatShare(answering, all int) string {
	return fmt.Sprintf("%d of %d voting members answer here", answering, all)
}

// etcdLeaderless reports whether an endpoint sees no leader of etcd.
func (f Facts) etcdLeaderless() bool {
	return slices.ContainsFunc(f.Endpoints, func(e Endpoint) bool {
		return e.Status != nil && e.Status.Leader == 0 || strings.Contains(e.Health, "NO LEADER")
	})
}

func formatSpare(n int) string {
	if n <= 0 {
		return "it stands no further loss"
	}
	return fmt.Sprintf("it stands the loss of %d more", n)
}

// diagnoseLearners checks that no endpoint is a learner, which does not serve the reads of nodes.
func diagnoseLearners(f Facts) []Finding {
	c := findings{check: CheckLearners}
	for _, e := range f.Endpoints {
		if e.Status != nil && e.Status.Learner {
			c.add(Warning, "leave it out of --etcd until etcdctl member promote has made it a voting member",
				"the member of etcd at %s is a learner: it serves no reads that nodes need", e.Address)
		}
	}
	return c.all
}

// diagnoseAlarms checks that etcd has no alarm, because of which it would refuse writes.
func diagnoseAlarms(f Facts) []Finding {
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
	return c.orOKFinding("etcd has no alarm")
}

const (
	// defaultQuota is the default of etcd, for versions that do not report their quota.
	defaultQuota = 2 << 30
	mebibyte     = 1 << 20
)

// diagnoseSpace checks that etcd's database is not close to its limit.
func diagnoseSpace(f Facts) []Finding {
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
		return c.orOKFinding("etcd's database has %d MiB; this version does not say its quota", largest.Size/mebibyte)
	}
	return c.orOKFinding("etcd's database has %d MiB of %d", largest.Size/mebibyte, largest.Quota/mebibyte)
}

// diagnoseVersions checks the versions of etcd and of the nodes.
func diagnoseVersions(f Facts) []Finding {
	c := findings{check: CheckVersions}
	var etcd []string
	for _, e := range f.Endpoints {
		if e.Status == nil {
			continue
		}
		if !slices.Contains(etcd, e.Status.Version) {
			etcd = append(etcd, e.Status.Version)
		}
		if etcdversion.RevokesRenewedLeases(e.Status.Version) {
			c.add(Warning, etcdversion.UpgradeRemedy,
				"etcd %s at %s can revoke leases that were renewed (etcd's issue 15247), so "+
					"that two nodes may lead for a moment", e.Status.Version, e.Address)
		}
	}
	if len(etcd) > 1 {
		c.add(Note, "finish the upgrade of etcd", "the members of etcd have different versions: %s", joinNames(etcd))
	}
	if f.State != nil {
		var nodes []string
		for _, m := range f.State.Snapshot.Members {
			if m.Version != "" && !slices.Contains(nodes, m.Version) {
				nodes = append(nodes, m.Version)
			}
		}
		if len(nodes) > 1 {
			c.add(Note, "finish the upgrade of the nodes", "nodes run different versions: %s", joinNames(nodes))
		}
		diagnoseFormats(&c, f.State.Snapshot)
	}
	if len(etcd) == 0 {
		return c.all
	}
	if len(f.Members) > 1 {
		return c.orOKFinding("etcd %s; a leader of it that stood still for most of a TTL can revoke leases that were "+
			"renewed, for which there are tokens", joinNames(etcd))
	}
	return c.orOKFinding("etcd %s", joinNames(etcd))
}

// diagnoseUnread reports that most checks lack facts.
func diagnoseUnread(f Facts) []Finding {
	if f.Unread == "" {
		return nil
	}
	c := findings{check: CheckUnread}
	if slices.ContainsFunc(f.Endpoints, Endpoint.servedReads) {
		c.add(Warning, "run goversed doctor again; if it stays so, etcd is too busy", "the cluster itself was not looked "+
			"at, although etcd answers: %s", f.Unread)
		return c.all
	}
	c.add(Note, "run goversed doctor again when that is repaired", "the cluster itself was not looked at: %s", f.Unread)
	return c.all
}

// diagnoseFormats reports nodes that run different releases of Goverse, or read different formats.
func diagnoseFormats(c *findings, s *state.Snapshot) {
	var releases []string
	differ := false
	for _, m := range s.Members {
		release := fmt.Sprintf("%s (format %v)", cmp.Or(m.Goverse, "one of before formats"), m.ReadFormats())
		if !slices.Contains(releases, release) {
			releases = append(releases, release)
		}
		differ = differ || m.ReadFormats() != s.Members[0].ReadFormats()
	}
	if len(releases) < 2 {
		return
	}
	decided := ""
	if used := s.Format(); differ {
		decided = fmt.Sprintf("; the cluster may use format %d, decided by %s", used.Format, used.DecidedBy.Address)
	}
	c.add(Note, "finish the upgrade of the nodes", "nodes run different releases of Goverse: %s%s", joinNames(releases),
		decided)
}
