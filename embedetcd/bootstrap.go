package embedetcd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

// greeting is the message of a member without data to the other members. The member also stores it in its
// directory.
type greeting struct {
	// Members holds the configured members and the token.
	Members string `json:"members"`
	// Nonce is a random text, drawn once for a data directory.
	Nonce string `json:"nonce"`
	// Agreed is the random part of the new cluster's id. It is set once the member has seen that no member has
	// data, and never changes: from then on the member can begin that cluster and no other.
	Agreed string `json:"agreed,omitempty"`
	// Begun is set once the member has seen that all have agreed, or that one of them has begun. From then on
	// the member starts etcd without asking the others.
	Begun bool `json:"begun,omitempty"`
}

// peerAnswer is the result of asking another member. Exactly one field is set: the member has no data, or runs
// etcd, or did not answer.
type peerAnswer struct {
	greeting *greeting            // set if the member has no data
	members  []*membership.Member // set if the member runs etcd: the members it knows
	err      error                // set if it gave neither answer
}

// bootStep is the next action of a member without data.
type bootStep struct {
	do      action
	agree   string               // for doAgree: the random part to agree on
	members []*membership.Member // for doJoin: the members of the cluster, including this one
	missing []string             // for doWait: the names of the members that have yet to answer
}

type action int

const (
	doWait  action = iota
	doAgree        // store the agreement and announce it
	doBegin        // start as a member of a new cluster
	doJoin         // start as a member that was added to a running one
)

// nextStep returns the next step of member c.Name, which has no data and sends the greeting mine, given the other
// members' answers. The members of a new cluster begin it only after each has seen that no other has data;
// otherwise a member that lost its data could not be distinguished from a new one. Errors match ErrMemberLost,
// ErrNotMember, ErrDataDir or ErrConfig.
func nextStep(c Config, mine greeting, others map[string]peerAnswer) (bootStep, error) {
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
			return bootStep{}, &DisagreeError{Member: name, Theirs: a.greeting.Members, Ours: mine.Members}
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
		if memberAt(others[running[0]].members, own) == nil {
			return bootStep{}, notMemberError(c, own)
		}
		return bootStep{do: doBegin}, nil // a member that has begun saw that all agreed
	case len(running) > 0:
		return nextRunning(c, others, running, missing)
	case len(agreed) > 1:
		return bootStep{}, fmt.Errorf("embedetcd: %w: a data directory was lost while the cluster began: remove those of "+
			"all members and start them again", ErrDataDir)
	case len(missing) > 0:
		return bootStep{do: doWait, missing: missing}, nil
	case mine.Agreed == "":
		return bootStep{do: doAgree, agree: proposedNonce(c, mine, others, agreed)}, nil
	}
	for _, name := range names {
		if others[name].greeting.Agreed == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return bootStep{do: doWait, missing: missing}, nil
	}
	return bootStep{do: doBegin}, nil
}

// proposedNonce returns the random part that others have agreed on; otherwise the nonce of the first member by name.
func proposedNonce(c Config, mine greeting, others map[string]peerAnswer, agreed map[string]bool) string {
	for token := range agreed {
		return token // nextStep has checked that there is only one
	}
	first := slices.Min(slices.Collect(maps.Keys(c.Peers)))
	if first == c.Name {
		return mine.Nonce
	}
	return others[first].greeting.Nonce
}

// nextRunning is the part of nextStep for the case that other members already run etcd.
func nextRunning(c Config, others map[string]peerAnswer, running, missing []string) (bootStep, error) {
	own := c.PeerTLS.scheme() + "://" + c.Peers[c.Name]
	var added *membership.Member
	unknown, same := 0, true
	for _, name := range running {
		switch m := memberAt(others[name].members, own); {
		case m == nil:
			unknown++
		case m.Name != "" || len(m.ClientURLs) > 0:
			return bootStep{}, memberLostError(c, m)
		default:
			same = same && (added == nil || added.ID == m.ID)
			added = m
		}
	}
	switch {
	case unknown == len(running):
		return bootStep{}, notMemberError(c, own)
	case unknown > 0 || !same:
		return bootStep{do: doWait, missing: running}, nil // one of them lags behind
	}
	members := others[running[0]].members
	voters := 0
	for _, m := range members {
		if !m.IsLearner {
			voters++
		}
	}
	if len(running) < voters/2+1 {
		return bootStep{do: doWait, missing: missing}, nil // a minority may have missed this member's removal
	}
	return bootStep{do: doJoin, members: members}, nil
}

// memberAt returns the member with the given peer URL, or nil.
func memberAt(members []*membership.Member, url string) *membership.Member {
	for _, m := range members {
		if slices.Contains(m.PeerURLs, url) {
			return m
		}
	}
	return nil
}

func memberLostError(c Config, m *membership.Member) error {
	return fmt.Errorf("embedetcd: %w: the cluster knows %s as member %s, and %s is empty: put the data back, or "+
		"replace the member in the cluster", ErrMemberLost, c.Name, types.ID(m.ID), c.DataDir)
}

func notMemberError(c Config, own string) error {
	return fmt.Errorf("embedetcd: %w: its members do not know %s at %s: add it to the cluster, or correct "+
		"Peers", ErrNotMember,
		c.Name, own)
}

// joinCluster formats the members of a running cluster for a member that joins it, as etcd's initial-cluster
// flag expects them. Members without a name get one.
func joinCluster(c Config, members []*membership.Member) string {
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
