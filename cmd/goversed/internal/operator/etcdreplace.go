package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// replaceInterval is the pause between two reads of the members of etcd.
	replaceInterval = 500 * time.Millisecond
	// membersTimeout limits one read.
	membersTimeout = 10 * time.Second
)

// ErrNotReplaced is returned when the time was over before the new member had its vote. Repeating the command
// continues.
var ErrNotReplaced = errors.New("the member of etcd is not replaced yet")

// Replaced describes a member of etcd that has replaced another one.
type Replaced struct {
	Name    string  `json:"name"`
	Removed string  `json:"removed"` // id of the former member; "" if it was removed before
	ID      string  `json:"id"`
	Peer    string  `json:"peer_url"`
	Seconds float64 `json:"seconds"`
}

// ReplaceEtcdMember removes the member of etcd of that name, which must not answer. It adds one at the peer URL
// as a learner ("" means the same URL), waits until that serves, and gives it its vote. It calls show with a
// line for each step. Its progress is stored in etcd, so that a call that was interrupted anywhere can be
// repeated.
//
// Nothing was changed if the error matches ErrNoSuchMember, ErrMemberLives, ErrTooFew or ErrOtherReplacement.
// When timeout has passed the error is ErrNotReplaced; otherwise it is an error of Read. With access control in
// etcd, the user must have the role root.
//
// Not promised: a member that does not answer here may be alive. It ends when it learns that it was removed.
func (o *Operator) ReplaceEtcdMember(ctx context.Context, timeout time.Duration, name, peer string,
	show func(string)) (Replaced, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began, waits := time.Now(), ""
	out := Replaced{Name: name}
	for first := true; ; first = false {
		step, kept, err := o.readReplacement(ctx, name, peer, first)
		if err != nil {
			if ctx.Err() != nil && waits != "" {
				return out, notReplacedError(name, waits)
			}
			return out, err
		}
		again, said, err := o.doReplaceStep(ctx, name, step, kept)
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
		if !wait.For(ctx, replaceInterval) {
			return out, notReplacedError(name, waits)
		}
	}
}

func notReplacedError(name, waits string) error {
	return fmt.Errorf("%w: %s; repeat goversed etcd replace %s to go on", ErrNotReplaced, waits, name)
}

// readReplacement reads the progress of the replacement.
func (o *Operator) readReplacement(ctx context.Context, name, peer string, first bool) (replaceStep, *replacementRecord,
	error) {
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	members, err := o.EtcdMembers(ctx)
	if err != nil {
		return replaceStep{}, nil, err
	}
	var kept *replacementRecord
	key := o.keys.EtcdReplace(name)
	err = o.etcd.Ask(ctx, rightsToReplace, func(ctx context.Context) error {
		resp, err := o.client.Get(ctx, key)
		if err == nil && len(resp.Kvs) > 0 {
			kept = &replacementRecord{modified: resp.Kvs[0].ModRevision}
			kept.rest, err = format.Decode(key, resp.Kvs[0].Value, kept)
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

// doReplaceStep performs one step. Again reports whether it changed something. Said is a line for the operator about
// the change, or about the reason to wait.
func (o *Operator) doReplaceStep(ctx context.Context, name string, step replaceStep,
	kept *replacementRecord) (again bool, said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, membersTimeout)
	defer cancel()
	// If another command writes meanwhile, the transaction fails and the next round reads again.
	key, modified := o.keys.EtcdReplace(name), int64(0)
	if kept != nil {
		modified = kept.modified
	}
	asRead := o.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", modified))
	switch step.do {
	case doKeep:
		var value []byte
		if value, err = format.Encode(step.keep, step.keep.rest); err == nil {
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
	if wait := etcdWaitReason(err); wait != "" {
		return false, wait, nil
	}
	return false, "", o.etcd.Explain(ctx, err, rightsToReplace)
}

// etcdWaitReason returns the condition that etcd requires before it lets members change, "" if err is not about
// that.
func etcdWaitReason(err error) string {
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
		return "waiting for etcd's members to agree" // another command works too, or an answer was lost
	}
	return ""
}

// PrintReplaced writes that the member was replaced, as text or JSON.
func PrintReplaced(out io.Writer, r Replaced, asJSON bool) error {
	if asJSON {
		return printJSON(out, r)
	}
	_, err := fmt.Fprintf(out, "member %s of etcd is replaced: %s at %s\n", r.Name, r.ID, r.Peer)
	return err
}
