package embedetcd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

// greeting is what a member without data says of itself to the others, and keeps in its directory.
type greeting struct {
	// Members is the cluster as it is configured: its members and the token.
	Members string `json:"members"`
	// Nonce is random, and drawn once for a data directory.
	Nonce string `json:"nonce"`
	// Agreed is set once the member has seen all others without data: the random part of the
	// cluster's id. It never changes: the member then begins that cluster and no other.
	Agreed string `json:"agreed,omitempty"`
	// Begun is set once the member has seen that all have agreed, or that one of them has begun: it starts etcd
	// from then on, whether the others answer or not.
	Begun bool `json:"begun,omitempty"`
}

// answer is what another member answered: it has no data, or runs etcd, or neither.
type answer struct {
	greeting *greeting            // not nil: it has no data yet
	members  []*membership.Member // not nil: its etcd's members
	err      error                // it did not answer so
}

// step is what a member without data does next.
type step struct {
	do      action
	agree   string               // with doAgree: the random part to agree on
	members []*membership.Member // with doJoin: those of the cluster, this one included
	missing []string             // with doWait: the names of those whose answer is needed
}

type action int

const (
	doWait  action = iota
	doAgree        // keep the agreement, and say so
	doBegin        // start as a member of a new cluster
	doJoin         // start as a member that was added to a running one
)

// next is what the member c.Name, which has no data and says mine, does next, where the others
// answered so. Members of a new cluster begin it when each has seen all others without data: only so
// one that has lost its data can be told from one that is new. Errors match ErrMemberLost,
// ErrNotMember, ErrDataDir or ErrConfig.
func next(c Config, mine greeting, others map[string]answer) (step, error) {
	names := slices.Sorted(maps.Keys(others))
	var running, missing []string
	agreed := map[string]bool{}
	for _, name := range names {
		a := others[name]
		switch {
		case a.members != nil:
			running = append(running, name)
		case a.greeting == nil:
			missing = append(missing, name)
		case a.greeting.Members != mine.Members:
			return step{}, &DisagreeError{Member: name, Theirs: a.greeting.Members, Ours: mine.Members}
		case a.greeting.Agreed != "":
			agreed[a.greeting.Agreed] = true
		}
	}
	if mine.Agreed != "" {
		agreed[mine.Agreed] = true
	}
	switch {
	case mine.Agreed != "" && len(running) > 0:
		own := c.PeerTLS.scheme() + "://" + c.Peers[c.Name]
		if at(others[running[0]].members, own) == nil {
			return step{}, notMember(c, own)
		}
		return step{do: doBegin}, nil // one that has begun has seen that all agreed
	case len(running) > 0:
		return nextRunning(c, others, running, missing)
	case len(agreed) > 1:
		return step{}, fmt.Errorf("embedetcd: %w: a data directory was lost while the cluster began: remove those of "+
			"all members and start them again", ErrDataDir)
	case len(missing) > 0:
		return step{do: doWait, missing: missing}, nil
	case mine.Agreed == "":
		return step{do: doAgree, agree: proposal(c, mine, others, agreed)}, nil
	}
	for _, name := range names {
		if others[name].greeting.Agreed == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return step{do: doWait, missing: missing}, nil
	}
	return step{do: doBegin}, nil
}

// proposal is what others have agreed on already, or else what the first member by name has drawn.
func proposal(c Config, mine greeting, others map[string]answer, agreed map[string]bool) string {
	for token := range agreed {
		return token // there is no other
	}
	first := slices.Min(slices.Collect(maps.Keys(c.Peers)))
	if first == c.Name {
		return mine.Nonce
	}
	return others[first].greeting.Nonce
}

// nextRunning is next where others run etcd already.
func nextRunning(c Config, others map[string]answer, running, missing []string) (step, error) {
	own := c.PeerTLS.scheme() + "://" + c.Peers[c.Name]
	var added *membership.Member
	unknown, same := 0, true
	for _, name := range running {
		switch m := at(others[name].members, own); {
		case m == nil:
			unknown++
		case m.Name != "" || len(m.ClientURLs) > 0:
			return step{}, memberLost(c, m)
		default:
			same = same && (added == nil || added.ID == m.ID)
			added = m
		}
	}
	switch {
	case unknown == len(running):
		return step{}, notMember(c, own)
	case unknown > 0 || !same:
		return step{do: doWait, missing: running}, nil // one of them is behind
	}
	members := others[running[0]].members
	voters := 0
	for _, m := range members {
		if !m.IsLearner {
			voters++
		}
	}
	if len(running) < voters/2+1 {
		return step{do: doWait, missing: missing}, nil // a minority may not know what has become of this member
	}
	return step{do: doJoin, members: members}, nil
}

// at is the member with a peer URL.
func at(members []*membership.Member, url string) *membership.Member {
	for _, m := range members {
		if slices.Contains(m.PeerURLs, url) {
			return m
		}
	}
	return nil
}

func memberLost(c Config, m *membership.Member) error {
	return fmt.Errorf("embedetcd: %w: the cluster knows %s as member %s, and %s is empty: put the data back, or "+
		"replace the member in the cluster", ErrMemberLost, c.Name, types.ID(m.ID), c.DataDir)
}

func notMember(c Config, own string) error {
	return fmt.Errorf("embedetcd: %w: its members do not know %s at %s: add it to the cluster, or correct "+
		"Peers", ErrNotMember,
		c.Name, own)
}

// withMembers writes the members of a running cluster as etcd wants them from one that joins it.
// Those that have no name yet get one.
func withMembers(c Config, members []*membership.Member) string {
	own := c.PeerTLS.scheme() + "://" + c.Peers[c.Name]
	var all []string
	for _, m := range members {
		name := m.Name
		switch {
		case slices.Contains(m.PeerURLs, own):
			name = c.Name
		case name == "" || name == c.Name:
			name = "member-" + types.ID(m.ID).String()
		}
		for _, url := range m.PeerURLs {
			all = append(all, name+"="+url)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
