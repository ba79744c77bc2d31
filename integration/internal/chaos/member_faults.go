//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/integration/internal/leases"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// electionTimeout is etcd's election timeout.
const electionTimeout = time.Second

// lateRevocation is the time within which a member that led etcd, and was deposed while it was paused, has leases
// revoked that seem expired to it but were renewed (etcd #15247). It checks every 500 ms. Until then, the
// effects of such revocations must be kept apart from those of another fault.
const lateRevocation = 1500 * time.Millisecond

// takeoverTime returns the time within which another node leads, after a member of etcd and with it the leading
// node are cut off: see "A member of etcd cut off from the others" in docs/protocols.md. It is a TTL, a second,
// three election timeouts, and two more for a split vote. A fault that affects another node meanwhile can add
// another TTL and a second.
func (w *world) takeoverTime() time.Duration {
	ttl := time.Duration(w.cfg.TTL) * time.Second
	return 2*(ttl+time.Second) + 5*electionTimeout
}

// chooseMember chooses a member: with a probability of three quarters the one that leads etcd. If nodes are bound to
// one member each, it first moves etcd's leadership to the member that the leading node reaches.
func (w *world) chooseMember(ctx context.Context, rnd *rand.Rand) (m *member, led bool) {
	l := w.etcdLeader(ctx)
	if l != nil && rnd.IntN(4) > 0 {
		if n := w.leader(); n != nil && len(n.members) == 1 && n.members[0] != l && l.moveLead(ctx, n.members[0]) == nil {
			l = n.members[0]
		}
		return l, true
	}
	m = w.members[rnd.IntN(len(w.members))]
	return m, m == l
}

// avoidMember makes the run's own client use the other members until back is called.
func (w *world) avoidMember(m *member) (back func() error) {
	w.avoidedMember.Store(m)
	m.ownRelay.Refuse()
	return func() error {
		w.avoidedMember.Store(nil)
		return m.ownRelay.Heal()
	}
}

// watchLeases records leases that etcd revokes although they were renewed, while a member is affected by a
// fault. The run itself revokes no leases at that time.
func (w *world) watchLeases() *leases.Watcher {
	return leases.Watch(leases.Config{Client: w.client, Prefix: clusterPrefix, Found: w.rec.Mark, Leader: w.reportedLeader,
		Counts: func() bool { return w.avoidedMember.Load() != nil },
		Owner: func(key, value string) string {
			for _, n := range w.nodes {
				if value == n.address() || strings.HasSuffix(key, n.address()) {
					return n.address()
				}
			}
			return ""
		}})
}

// reportedLeader returns etcd's leader according to an unaffected member. It reports false if that leader is the
// affected member.
func (w *world) reportedLeader(ctx context.Context) (leader, term uint64, ok bool) {
	aside := w.avoidedMember.Load()
	for _, m := range w.members {
		if m == aside {
			continue
		}
		st, err := w.client.Status(ctx, m.endpoint)
		if err != nil || st.Leader == 0 || aside != nil && st.Leader == aside.id.Load() {
			return 0, 0, false
		}
		return st.Leader, st.RaftTerm, true
	}
	return 0, 0, false
}

// awaitOthers waits until the other members have a leader and a node leads that reaches one of them, each
// within its limit. From then on only m itself can believe that m leads etcd.
func (w *world) awaitOthers(ctx context.Context, m *member, within time.Duration) error {
	if err := w.awaitEtcdAnswers(ctx); err != nil { // the others answer
		return err
	}
	_, err := w.awaitSnapshot(ctx, within, fmt.Sprintf("a node leads that reaches a member other than %s", m.endpoint),
		func(s *state.Snapshot) bool {
			n := w.nodeAt(s.Leader().Address)
			return n != nil && (len(n.members) > 1 || n.members[0] != m)
		})
	return err
}

// freezeMember freezes one member for a while.
func freezeMember(ctx context.Context, w *world, _ *chaosNode, rnd *rand.Rand) error {
	m, _ := w.chooseMember(ctx, rnd)
	end := w.rec.BeginFault("", "etcd member stopped", m.endpoint)
	defer end()
	back := w.avoidMember(m)
	if _, err := m.currentProcess().Freeze(); err != nil {
		return errors.Join(err, back())
	}
	others := w.awaitOthers(ctx, m, w.takeoverTime())
	wait.For(ctx, schedule.Between(rnd, 0, 2*time.Second))
	_, err := m.currentProcess().Thaw()
	return errors.Join(others, err, w.awaitEtcdWhole(ctx), back())
}

// stutterMember freezes one member for most of a TTL, lets it run for a moment, and freezes it again until all
// its promises have expired.
func stutterMember(ctx context.Context, w *world, _ *chaosNode, rnd *rand.Rand) error {
	m, _ := w.chooseMember(ctx, rnd)
	end := w.rec.BeginFault("", "etcd member stutters", m.endpoint)
	defer end()
	back := w.avoidMember(m)
	ttl := time.Duration(w.cfg.TTL) * time.Second
	var errs []error
	stop := func() {
		_, err := m.currentProcess().Freeze()
		errs = append(errs, err)
	}
	goOn := func() {
		_, err := m.currentProcess().Thaw()
		errs = append(errs, err)
	}
	stop()
	wait.For(ctx, schedule.Between(rnd, ttl/2, ttl))
	goOn()
	wait.For(ctx, schedule.Between(rnd, 50*time.Millisecond, ttl/3))
	stop()
	wait.For(ctx, schedule.Between(rnd, ttl*3/4, ttl*3/2))
	// Each leader of etcd that was elected in that moment has extended the leases.
	errs = append(errs, w.awaitOthers(ctx, m, w.takeoverTime()))
	goOn()
	return errors.Join(append(errs, w.awaitEtcdWhole(ctx), back())...)
}

// cutMembers cuts the connection between one member and all others, or one other. Clients still reach all
// members.
func cutMembers(ctx context.Context, w *world, _ *chaosNode, rnd *rand.Rand) error {
	m, led := w.chooseMember(ctx, rnd)
	var from []*member
	for _, other := range w.members {
		if other != m {
			from = append(from, other)
		}
	}
	wholly := rnd.IntN(3) > 0
	if !wholly {
		from = from[:1]
	}
	end := w.rec.BeginFault("", "etcd members cut off", fmt.Sprintf("%s from %d", m.endpoint, len(from)))
	defer end()
	back := w.avoidMember(m)
	tell := func(what string) (errs []error) {
		for _, other := range from {
			errs = append(errs, m.sendInstruction(what, other), other.sendInstruction(what, m))
		}
		return errs
	}
	errs := tell(procs.CutPeer)
	if wholly {
		errs = append(errs, w.awaitDeposed(ctx, m, led), w.awaitOthers(ctx, m, w.takeoverTime()))
	} else {
		errs = append(errs, w.awaitEtcdAnswers(ctx))
	}
	wait.For(ctx, schedule.Between(rnd, 0, time.Duration(w.cfg.TTL)*time.Second))
	errs = append(errs, tell(procs.MendPeer)...)
	return errors.Join(append(errs, w.awaitEtcdWhole(ctx), back())...)
}

// awaitDeposed waits until a member that led etcd learns that it does not lead any more.
func (w *world) awaitDeposed(ctx context.Context, m *member, led bool) error {
	for until := time.Now().Add(effectPatience); led && time.Now().Before(until) &&
		ctx.Err() == nil; wait.For(ctx, pollInterval) {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		var st *clientv3.StatusResponse
		st, err := w.client.Status(attempt, m.endpoint)
		cancel()
		if err == nil && st.Leader != st.Header.MemberId {
			return nil
		}
	}
	if led {
		return fmt.Errorf("member %s is cut off from the others and still leads etcd", m.endpoint)
	}
	return nil
}

// awaitEtcdWhole waits until etcd answers, all its members have joined, and a deposed member has revoked any leases
// that it will revoke.
func (w *world) awaitEtcdWhole(ctx context.Context) error {
	err := errors.Join(w.awaitEtcdAnswers(ctx), w.awaitMembersJoined(ctx))
	wait.For(ctx, lateRevocation)
	return err
}
