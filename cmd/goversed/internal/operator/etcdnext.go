package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The errors of ReplaceEtcdMember that change nothing.
var (
	// ErrNoSuchMember: etcd has no member of that name, and none is being replaced.
	ErrNoSuchMember = errors.New("no such member of etcd")
	// ErrMemberLives: the member answers.
	ErrMemberLives = errors.New("the member of etcd lives")
	// ErrTooFew: without the member, too few others would be left to serve.
	ErrTooFew = errors.New("too few other members of etcd answer")
	// ErrOtherReplacement: the member is being replaced by one with another peer URL.
	ErrOtherReplacement = errors.New("the member is being replaced by another one")
)

// replacement is what is kept in etcd while a member is replaced, so that the same command, repeated, goes on.
type replacement struct {
	Removed string `json:"removed"` // the id of the member that is replaced, in hex
	Peer    string `json:"peer"`    // the peer URL of the one that comes in its place

	modified int64 // of its key, as it was read: it is written over and deleted only as such
}

// replaceStep is what is to be done next.
type replaceStep struct {
	do     replaceAction
	member EtcdMember  // with doRemove, doPromote and doneReplacing
	keep   replacement // with doKeep
}

type replaceAction int

const (
	doKeep        replaceAction = iota // keep that the member is replaced
	doRemove                           // remove the old one
	doAdd                              // add the new one, as a learner
	doAwaitStart                       // it was added, and does not serve yet
	doPromote                          // it serves: give it its vote
	doForget                           // a replacement from before is complete: forget it, and look again
	doneReplacing                      // and forget it
)

// nextReplace is the next step of replacing the member name by one at peer ("": the same peer URL), with what
// is kept of it, nil if nothing is. First removed, then added: so a cluster of three never has four voters, of
// which three would have to answer. Added as a learner: so it has no vote while it has no data.
//
// first: the command has just been given. A new member that has served, and does not answer then, has lost its data,
// too, as far as the operator is concerned: it is the next one to be replaced.
func nextReplace(name, peer string, kept *replacement, members []EtcdMember, first bool) (replaceStep, error) {
	if kept == nil {
		return beginReplace(name, peer, members)
	}
	if peer != "" && peer != kept.Peer {
		return replaceStep{}, fmt.Errorf("%w: %s by %s; leave --peer out to complete "+
			"that", ErrOtherReplacement, name, kept.Peer)
	}
	for _, m := range members {
		if m.ID == kept.Removed {
			if err := mayRemove(m, members); err != nil {
				return replaceStep{}, err
			}
			return replaceStep{do: doRemove, member: m}, nil
		}
	}
	i := slices.IndexFunc(members, func(m EtcdMember) bool { return slices.Contains(m.PeerURLs, kept.Peer) })
	if i < 0 {
		return replaceStep{do: doAdd}, nil
	}
	switch m := members[i]; {
	case first && m.Learner && m.State == EtcdNoAnswer:
		return replaceStep{do: doKeep, keep: replacement{Removed: m.ID, Peer: kept.Peer}}, nil
	case !m.Learner && m.State == EtcdNoAnswer:
		return replaceStep{do: doForget}, nil
	case !m.Learner && m.State != EtcdNotStarted:
		return replaceStep{do: doneReplacing, member: m}, nil
	case m.State == EtcdLearner:
		return replaceStep{do: doPromote, member: m}, nil
	default:
		return replaceStep{do: doAwaitStart, member: m}, nil
	}
}

func beginReplace(name, peer string, members []EtcdMember) (replaceStep, error) {
	i := slices.IndexFunc(members, func(m EtcdMember) bool { return m.Name == name })
	if i < 0 {
		var names []string
		for _, m := range members {
			names = append(names, orDash(m.Name))
		}
		return replaceStep{}, fmt.Errorf("%w: %s; the members are %s", ErrNoSuchMember, name, strings.Join(names, ", "))
	}
	old := members[i]
	if err := mayRemove(old, members); err != nil {
		return replaceStep{}, err
	}
	if peer == "" {
		peer = old.PeerURLs[0]
	}
	for _, m := range members {
		if m.ID != old.ID && slices.Contains(m.PeerURLs, peer) {
			return replaceStep{}, fmt.Errorf("--peer %s is that of %s: give the one of the new member", peer, orDash(m.Name))
		}
	}
	return replaceStep{do: doKeep, keep: replacement{Removed: old.ID, Peer: peer}}, nil
}

// mayRemove looks whether the member is dead, and the others serve without it.
func mayRemove(old EtcdMember, members []EtcdMember) error {
	if old.answers() {
		return fmt.Errorf("%w: %s answers at %s; stop it first, if it is to be replaced", ErrMemberLives, old.Name,
			strings.Join(old.ClientURLs, ","))
	}
	voters, answer := 0, 0
	var silent []string
	for _, m := range members {
		if m.ID == old.ID || m.Learner {
			continue
		}
		voters++
		if m.answers() {
			answer++
		} else {
			silent = append(silent, orDash(m.Name))
		}
	}
	if answer < voters/2+1 || voters == 0 {
		return fmt.Errorf("%w: without %s, %d of %d must, and %d do; start %s first", ErrTooFew, old.Name, voters/2+1, voters,
			answer, orDash(strings.Join(silent, ", ")))
	}
	return nil
}
