package diagnosis

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
)

// diagnosePrefix checks that this is the intended prefix.
func diagnosePrefix(f Facts) []Finding {
	if f.State == nil {
		return nil
	}
	c := findings{check: CheckPrefix}
	var others []string
	for _, p := range f.OtherClusters.Prefixes {
		others = append(others, fmt.Sprintf("%s (%s)", p.Prefix, formatCount(p.Nodes, "node")))
	}
	members, more := len(f.State.Snapshot.Members), ""
	switch {
	case len(others) > 0:
		more = "; other clusters in this etcd: " + joinNames(others)
	case f.OtherClusters.Denied:
		more = "; this user may not look for other clusters"
	}
	if f.OtherClusters.More {
		more += "; not all of etcd's keys were looked at"
	}
	switch {
	case members == 0 && len(others) > 0:
		c.add(Warning, "check --prefix", "no node is registered under %s%s", f.Prefix, more)
	case members == 0:
		c.add(Note, "", "no node is registered under %s yet%s", f.Prefix, more)
	}
	return c.orOKFinding("%s under %s%s", formatCount(members, "node"), f.Prefix, more)
}

// errNoProcess is returned for JSON that is a record without an instance id.
var errNoProcess = errors.New("it names no process")

// decodeError returns the reason why a node cannot decode a value in the range, or nil.
func decodeError(parsed state.ParsedKey, value []byte) (err error) {
	switch parsed.Kind {
	case state.KindNode:
		var r state.Record
		if r, err = state.DecodeRecord(value); err == nil && r.InstanceID == "" {
			return errNoProcess
		}
	case state.KindRequest:
		_, err = state.DecodeRequest(value)
	case state.KindAccusation:
		_, err = state.DecodeAccusation(value)
	case state.KindSilence:
		_, err = state.DecodeSilence(value)
	case state.KindDrain:
		_, err = state.DecodeDrain(value)
	case state.KindShardMap:
		_, err = sharding.DecodeMap(value)
	case state.KindReleased:
		_, err = sharding.DecodeReport(value)
	}
	return err
}

// diagnoseValues checks that all keys in the range are Goverse's, and can be decoded.
func diagnoseValues(f Facts) []Finding {
	if f.State == nil {
		return nil
	}
	c := findings{check: CheckValues}
	keys := f.State.Snapshot.Keys
	var foreign, original []string
	for _, kv := range f.State.KVs {
		if keys.WrittenByOriginal(kv.Key, kv.Value) {
			original = append(original, kv.Key)
			continue
		}
		parsed := keys.Parse(kv.Key)
		if parsed.Kind == state.KindOther && !strings.HasPrefix(kv.Key, keys.DoctorKeys()) {
			foreign = append(foreign, kv.Key)
		}
		err := decodeError(parsed, kv.Value)
		if err == nil {
			continue
		}
		why := strings.ReplaceAll(err.Error(), "\n", " ")
		remedy := "find out who wrote it, then etcdctl del " + kv.Key
		switch {
		case errors.Is(err, format.ErrFormat):
			c.add(Problem, "do not delete it: upgrade the nodes, and this goversed", "%s cannot be read by the version of "+
				"this goversed, nor by nodes of that: %s", kv.Key, why)
		case parsed.Kind == state.KindShardMap:
			c.add(Problem, remedy+": the leader then assigns all shards anew", "the shard map %s cannot be read, so no shard "+
				"is assigned: %s", kv.Key, why)
		case parsed.Kind == state.KindNode:
			c.add(Problem, remedy, "the record of a node, %s, cannot be read, and keeps its address from others: %s", kv.Key,
				why)
		default:
			c.add(Warning, remedy, "the value of %s cannot be read and is passed over: %s", kv.Key, why)
		}
	}
	if len(original) > 0 {
		c.add(Problem, "give one of the two clusters another prefix (--prefix)", "the original goverse "+
			"(github.com/xiaonanln/goverse) uses the prefix %s, too, and takes these nodes for its own: it wrote %s, such as %s",
			f.Prefix, formatCount(len(original), "key"), original[0])
	}
	if len(foreign) > 0 {
		c.add(Note, "keep keys of your own under another prefix", "%s below %s that no node knows: %s",
			formatCount(len(foreign), "key"), f.Prefix, joinNames(foreign))
	}
	return c.orOKFinding("every key of the cluster can be read")
}

// diagnoseLeader checks that there is a leader, and that it is a node.
func diagnoseLeader(f Facts) []Finding {
	if f.State == nil {
		return nil
	}
	c, s := findings{check: CheckLeader}, f.State.Snapshot
	for place, candidate := range s.Queue {
		if s.MemberOf(candidate) != nil {
			continue
		}
		key := fmt.Sprintf("the key %s (%q)", candidate.Key, candidate.Address)
		switch {
		case candidate.Lease == 0:
			severity, where := Problem, "first in the election's queue, so that no node leads"
			if place > 0 {
				severity, where = Warning, "in the election's queue, and will lead when those before it are gone"
			}
			c.add(severity, "find out who wrote it, then etcdctl del "+candidate.Key,
				"%s is no node's and has no lease: it never ends, and is %s", key, where)
		case place == 0:
			c.add(Warning, fmt.Sprintf("wait until that program ends, or if it has: etcdctl lease revoke %x", candidate.Lease),
				"%s, which is no node's, leads: a program outside, as etcdctl elect%s", key, f.leaseTimeLeft(candidate.Lease))
		default:
			c.add(Note, "", "%s, which is no node's, waits in the election's queue%s", key, f.leaseTimeLeft(candidate.Lease))
		}
	}
	l := s.Leader()
	standing := slices.ContainsFunc(s.Members, func(m *state.Member) bool { return !m.Observer })
	switch {
	case len(s.Members) == 0 && len(s.Queue) == 0:
		return c.all
	case l.Address == "" && len(s.Queue) == 0 && !standing:
		c.add(Warning, "start a node without --observer", "there is no leader: every node is an observer")
	case l.Address == "" && len(s.Queue) == 0:
		c.add(Problem, "look for the reason in the logs of the nodes; etcd may deny them "+s.Keys.Queue(),
			"there is no leader, and no node is queued")
	case l.Address == "" && s.Acting != nil:
		c.add(Note, "look again in some seconds", "leadership goes from fallback (%s) back to the election", s.Acting.Address)
	}
	return c.orOKFinding("%s leads by token %d; %d in the queue", l.Address, l.Token, len(s.Queue))
}

// leaseTimeLeft describes the remaining time of a lease, if it is known.
func (f Facts) leaseTimeLeft(lease int64) string {
	l, ok := f.Leases.ByID[lease]
	if !ok {
		return ""
	}
	return fmt.Sprintf("; its lease of %v has %v left", l.Granted, l.Left)
}

// diagnoseFallback checks that the election works for every node.
func diagnoseFallback(f Facts) []Finding {
	if f.State == nil || len(f.State.Snapshot.Members) == 0 {
		return nil
	}
	c, s := findings{check: CheckFallback}, f.State.Snapshot
	for _, m := range s.Members {
		if m.ElectionFailed {
			c.add(Problem, "grant WRITE on "+s.Keys.Queue()+" if etcd denies it; the election comes back by itself",
				"the election of %s does not work: %s", m.Address, cmp.Or(m.Reason, "it does not say why"))
		}
	}
	if l := s.Leader(); l.Fallback {
		c.add(Problem, "repair what keeps the nodes from the election", "%s leads in fallback, because the election does "+
			"not work",
			l.Address)
	}
	return c.orOKFinding("the election works for every node")
}

// diagnoseShards checks that all nodes have the same number of shards.
func diagnoseShards(f Facts) []Finding {
	if f.State == nil {
		return nil
	}
	c, s := findings{check: CheckShards}, f.State.Snapshot
	by := map[int][]string{}
	for _, m := range s.Members {
		if m.Shards > 0 {
			by[m.Shards] = append(by[m.Shards], m.Address)
		}
	}
	if len(by) == 0 {
		return nil
	}
	var counts []string
	for _, n := range slices.SortedFunc(maps.Keys(by), func(a, b int) int {
		return cmp.Or(cmp.Compare(len(by[b]), len(by[a])), cmp.Compare(a, b))
	}) {
		counts = append(counts, fmt.Sprintf("%d at %s", n, joinNames(by[n])))
	}
	fixed := 0
	if m := s.Map(); m != nil {
		fixed = m.Shards()
	}
	switch {
	case len(by) > 1:
		c.add(Problem, "start all nodes with the same --shards", "the nodes have different numbers of shards: %s",
			strings.Join(counts, "; "))
	case fixed > 0 && len(by[fixed]) == 0:
		c.add(Problem, fmt.Sprintf("start the nodes with --shards %d, or stop all of them and delete %s", fixed,
			s.Keys.ShardMap()),
			"the shard map has %d shards, and the nodes have another number: %s", fixed, counts[0])
	case s.ShardMap == nil:
		return c.orOKFinding("the shards are not assigned yet: goversed shards plan says what the leader waits for")
	}
	return c.orOKFinding("the shard map and the nodes have the same number of shards")
}

// longLease is longer than the TTL of any node's lease.
const longLease = 24 * time.Hour

// diagnoseLeases checks that leases end when their holders do.
func diagnoseLeases(f Facts) []Finding {
	if f.State == nil {
		return nil
	}
	c, s := findings{check: CheckLeases}, f.State.Snapshot
	for _, m := range s.Members {
		lease, known := f.Leases.ByID[m.KeyLease]
		gone := slices.ContainsFunc(f.Nodes, func(n Node) bool {
			return n.Address == m.Address && (n.AnswerKind == Refused || n.AnswerKind == Another)
		})
		switch {
		case m.KeyLease == 0:
			c.add(Problem, "if that node does not run: etcdctl del "+s.Keys.Node(m.Address), "the record of the node %s has "+
				"no lease: it stays when the node is gone", m.Address)
		case m.InstanceID != "" && m.KeyLease != m.Lease:
			c.add(Warning, "find out who wrote it, and restart that node", "the record of the node %s is on another lease "+
				"(%x) than it says (%x)", m.Address, m.KeyLease, m.Lease)
		case gone && known:
			c.add(Warning, fmt.Sprintf("wait for that, start the node again at its address, or: etcdctl lease revoke %x",
				m.KeyLease),
				"the lease %x of the node %s, whose process does not answer there, has %v left: until then it keeps its place, "+
					"its shards and its locks", m.KeyLease, m.Address, lease.Left)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.Leases.ByID)) {
		if l := f.Leases.ByID[id]; l.Left > longLease {
			c.add(Warning, fmt.Sprintf("find out who made it; if that is gone: etcdctl lease revoke %x", id),
				"the lease %x, which keys of the cluster are on, goes on for %v", id, l.Left)
		}
	}
	if many := 100; f.Leases.Empty >= many {
		c.add(Warning, "find the program that creates leases and neither uses nor revokes them",
			"%d of %d leases that were looked at have no key", f.Leases.Empty, f.Leases.Examined)
	}
	if f.Leases.Total < 0 {
		return c.orOKFinding("%s of the cluster; this user may not see those of others",
			formatCount(len(f.Leases.ByID), "lease"))
	}
	return c.orOKFinding("%s of the cluster, of %d in etcd", formatCount(len(f.Leases.ByID), "lease"), f.Leases.Total)
}
