package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// replaceRetry is the pause between two looks at the members of etcd.
	replaceRetry = 500 * time.Millisecond
	// readMembers bounds one look.
	readMembers = 10 * time.Second
)

// ErrNotReplaced: the time was up before the new member had its vote. The same command goes on.
var ErrNotReplaced = errors.New("the member of etcd is not replaced yet")

// Replaced is a member of etcd that has come in another's place.
type Replaced struct {
	Name    string  `json:"name"`
	Removed string  `json:"removed"` // the id of the former one; "" if it was replaced before
	ID      string  `json:"id"`
	Peer    string  `json:"peer_url"`
	Seconds float64 `json:"seconds"`
}

// ReplaceEtcdMember removes the member of etcd of that name, which must not answer, adds one at the peer URL
// ("": the same) as a learner, waits until it serves and gives it its vote; it calls show with a line for each
// step. How far it has come is kept in etcd, so that a call that was interrupted anywhere can be repeated.
// It changes nothing where the error matches ErrNoSuchMember, ErrMemberLives, ErrTooFew or ErrOtherReplacement.
// When timeout has passed the error is ErrNotReplaced; others are those of Read. With etcd's access
// control, the user must be one of role root.
//
// Not promised: that a member which does not answer here is dead. One that lives after all ends when it
// hears that it was removed.
func (o *Operator) ReplaceEtcdMember(ctx context.Context, timeout time.Duration, name, peer string,
	show func(string)) (Replaced, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began, waits := time.Now(), ""
	out := Replaced{Name: name}
	for first := true; ; first = false {
		step, kept, err := o.lookReplace(ctx, name, peer, first)
		if err != nil {
			if ctx.Err() != nil && waits != "" {
				return out, unfinished(name, waits)
			}
			return out, err
		}
		again, said, err := o.carryOut(ctx, name, step, kept)
		if err != nil {
			return out, err
		}
		if step.do == doRemove && again {
			out.Removed = step.member.ID
		}
		if step.do == doneReplacing {
			out.ID, out.Peer, out.Seconds = step.member.ID, kept.Peer, time.Since(began).Seconds()
			return out, nil
		}
		if said != "" && said != waits {
			show(said)
			waits = said
		}
		if again {
			continue
		}
		select {
		case <-time.After(replaceRetry):
		case <-ctx.Done():
			return out, unfinished(name, waits)
		}
	}
}

func unfinished(name, waits string) error {
	return fmt.Errorf("%w: %s; repeat goversed etcd replace %s to go on", ErrNotReplaced, waits, name)
}

// lookReplace reads how far the replacement is.
func (o *Operator) lookReplace(ctx context.Context, name, peer string, first bool) (replaceStep, *replacement,
	error) {
	ctx, cancel := context.WithTimeout(ctx, readMembers)
	defer cancel()
	members, err := o.EtcdMembers(ctx)
	if err != nil {
		return replaceStep{}, nil, err
	}
	var kept *replacement
	key := o.keys.EtcdReplace(name)
	err = o.etcd.Ask(ctx, rightsToReplace, func(ctx context.Context) error {
		resp, err := o.client.Get(ctx, key)
		if err == nil && len(resp.Kvs) > 0 {
			kept = &replacement{modified: resp.Kvs[0].ModRevision}
			err = json.Unmarshal(resp.Kvs[0].Value, kept)
		}
		return err
	})
	if err != nil {
		return replaceStep{}, nil, err
	}
	step, err := nextReplace(name, peer, kept, members, first)
	return step, kept, err
}

const rightsToReplace = "the role root"

// carryOut does one step. again reports whether it changed something; said is what an operator is to read,
// about what was done or what it waits for.
func (o *Operator) carryOut(ctx context.Context, name string, step replaceStep,
	kept *replacement) (again bool, said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readMembers)
	defer cancel()
	// Another command may be at it, too: then this one looks anew.
	key, modified := o.keys.EtcdReplace(name), int64(0)
	if kept != nil {
		modified = kept.modified
	}
	asRead := o.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", modified))
	switch step.do {
	case doKeep:
		var value []byte
		if value, err = json.Marshal(step.keep); err == nil {
			_, err = asRead.Then(clientv3.OpPut(key, string(value))).Commit()
		}
	case doRemove:
		said = fmt.Sprintf("removed member %s (%s)", name, step.member.ID)
		_, err = o.client.MemberRemove(ctx, step.member.number)
	case doAdd:
		said = fmt.Sprintf("added a member at %s as a learner", kept.Peer)
		_, err = o.client.MemberAddAsLearner(ctx, []string{kept.Peer})
	case doAwaitStart:
		return false, fmt.Sprintf("waiting for goversed node with --etcd-name %s at %s, with an empty --data-dir", name,
			kept.Peer), nil
	case doPromote:
		said = fmt.Sprintf("member %s (%s) has caught up and votes", name, step.member.ID)
		_, err = o.client.MemberPromote(ctx, step.member.number)
	case doForget, doneReplacing:
		_, err = asRead.Then(clientv3.OpDelete(key)).Commit()
	}
	if err == nil {
		return true, said, nil
	}
	if wait := etcdWaits(err); wait != "" {
		return false, wait, nil
	}
	return false, "", o.etcd.Explain(ctx, err, rightsToReplace)
}

// etcdWaits is what etcd wants to have been so for a while before it lets members change, "" if err is not
// about that.
func etcdWaits(err error) string {
	switch {
	case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
		return "waiting for the new member to catch up"
	case errors.Is(err, rpctypes.ErrUnhealthy):
		return "waiting for etcd: its members must have been connected for five seconds before one is added"
	case errors.Is(err, rpctypes.ErrMemberNotEnoughStarted), errors.Is(err, rpctypes.ErrNoLeader),
		errors.Is(err, rpctypes.ErrLeaderChanged), errors.Is(err, rpctypes.ErrTimeout),
		errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail), errors.Is(err, rpctypes.ErrTooManyLearners):
		return "waiting for etcd: " + rpctypes.ErrorDesc(err)
	case errors.Is(err, rpctypes.ErrMemberNotFound), errors.Is(err, rpctypes.ErrPeerURLExist),
		errors.Is(err, rpctypes.ErrMemberNotLearner):
		return "waiting for etcd's members to agree" // another one is at it, or an answer was lost
	}
	return ""
}

// PrintReplaced writes that the member was replaced.
func PrintReplaced(out io.Writer, r Replaced, asJSON bool) error {
	if asJSON {
		return printJSON(out, r)
	}
	_, err := fmt.Fprintf(out, "member %s of etcd is replaced: %s at %s\n", r.Name, r.ID, r.Peer)
	return err
}
