package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goverse/goverse/internal/state/format"
)

// Errors of ReplaceEtcdMember. In these cases nothing was changed.
var (
	// ErrNoSuchMember is returned when etcd has no member of that name and none of that name is being replaced.
	ErrNoSuchMember = errors.New("no such member of etcd")
	// ErrMemberLives is returned when the member answers.
	ErrMemberLives = errors.New("the member of etcd lives")
	// ErrTooFew is returned when too few other members would be left to serve.
	ErrTooFew = errors.New("too few other members of etcd answer")
	// ErrOtherReplacement is returned when the member is being replaced by one with another peer URL.
	ErrOtherReplacement = errors.New("the member is being replaced by another one")
)

// replacementRecord is stored in etcd while a member is replaced, so that repeating the command continues it.
type replacementRecord struct {
	Removed string `json:"removed"` // id of the member to be replaced, in hex
	Peer    string `json:"peer"`    // peer URL of the new member

	modified int64       // revision of the key as read; a write requires that it is unchanged
	rest     format.Rest // fields that this release does not know; they are stored again
}

type replaceStep struct {
	do     replaceAction
	member EtcdMember        // set with doRemove, doPromote and doneReplacing
	keep   replacementRecord // set with doKeep
}

type replaceAction int

const (
	doKeep        replaceAction = iota // store the replacement
	doRemove                           // remove the old member
	doAdd                              // add the new member as a learner
	doAwaitStart                       // wait for the new member, which does not serve yet
	doPromote                          // make the serving learner a voter
	doForget                           // delete the record of an earlier, complete replacement and continue
	doneReplacing                      // complete: delete the record
)

// nextReplace returns the next step of replacing the member name by one at peer; "" means the same peer URL.
// Kept is the stored replacement, or nil.
//
// The old member is removed before the new one is added, so that a cluster of three never has four voters, of
// which three would have to answer. The new member is added as a learner, so that it has no vote while it has
// no data.
//
// First reports that the command has just been started. A learner that has served and does not answer then is
// taken to have lost its data as well, and becomes the next member to be replaced.
func nextReplace(name, peer string, kept *replacementRecord, members []EtcdMember, first bool) (replaceStep, error) {
	if kept == nil {
		return beginReplace(name, peer, members)
	}
	if peer != "" && peer != kept.Peer {
		return replaceStep{}, fmt.Errorf("%w: %s by %s; leave --peer out to complete "+
			"that", ErrOtherReplacement, name, kept.Peer)
	}
	for _, m := range members {
		if m.ID == kept.Removed {
			if err := checkRemovable(m, members); err != nil {
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
		return replaceStep{do: doKeep, keep: replacementRecord{Removed: m.ID, Peer: kept.Peer, rest: kept.rest}}, nil
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
	if err := checkRemovable(old, members); err != nil {
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
	return replaceStep{do: doKeep, keep: replacementRecord{Removed: old.ID, Peer: peer}}, nil
}

// checkRemovable returns an error unless the member is dead and enough others serve without it.
func checkRemovable(old EtcdMember, members []EtcdMember) error {
	if old.answered() {
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
		if m.answered() {
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
