package crash

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/wait"
)

// maxOutstanding limits the heartbeats of one stream that wait for acknowledgements. The server sends fewer before
// it waits.
const maxOutstanding = 64

// armer arms the watchers of this process's member, and remembers when it sent each heartbeat.
type armer struct {
	d *Detector

	mu      sync.Mutex
	last    uint64 // number of the last heartbeat
	streams map[uint64]*armedStream
	allowed *etcdsession.Session // the session that may read the accusations of silence; nil if none

	// refused is set while etcd refuses this process's user the accusations of silence. Watches that are opened then do
	// not offer to acknowledge heartbeats: no member should count on a watcher that cannot accuse.
	refused atomic.Bool
}

// armedStream is a stream to a watcher that was armed by it.
type armedStream struct {
	session *etcdsession.Session
	watcher int64 // incarnation
	sent    map[uint64]deadline.Instant
	last    uint64 // number of the last heartbeat that was sent
	heard   uint64 // number of the last heartbeat that is known to be acknowledged
}

func newArmer(d *Detector) *armer {
	return &armer{d: d, streams: map[uint64]*armedStream{}}
}

// armedAs returns this member as it may arm watchers, and its session.
func (a *armer) armedAs(s *state.Snapshot) (*state.Member, *etcdsession.Session) {
	session := a.d.cfg.Keeper.Current()
	if s == nil || session == nil || session != a.allowed {
		return nil, nil
	}
	own := s.Member(a.d.cfg.Address)
	if own == nil || own.KeyLease != int64(session.ID()) || own.InstanceID != a.d.cfg.InstanceID {
		return nil, nil
	}
	return own, session
}

// NextBeat implements [heartbeat.Armer].
func (d *Detector) NextBeat(stream uint64, instance string) (b heartbeat.Beat, next time.Duration) {
	a, timeout := d.armer, d.cfg.Settings.OwnSilenceTimeout()
	if timeout == 0 {
		return b, heartbeat.SendEvery
	}
	s := d.cfg.Mirror.Snapshot()
	a.mu.Lock()
	defer a.mu.Unlock()
	own, session := a.armedAs(s)
	if own == nil {
		return b, heartbeat.SendEvery
	}
	watcher := suspicion.MemberWithInstance(s, instance)
	x := a.streams[stream]
	if watcher == nil || watcher.Address == own.Address {
		return b, heartbeat.SendEvery
	}
	times := deadline.ProofTimesOf(timeout)
	if x == nil || x.session != session || x.watcher != watcher.Incarnation {
		// One that is armed goes on, though its member may be farther from etcd by now: it would accuse.
		if !suspicion.MayArm(timeout, session.TTL(), own) && !session.Proofs().IsArmed(watcher.Incarnation) {
			return b, heartbeat.SendEvery // the lease decides alone
		}
		x = &armedStream{session: session, watcher: watcher.Incarnation, sent: map[uint64]deadline.Instant{}}
		a.streams[stream] = x
		session.BeginProofs(times)
		session.UpdateProofs(func(p *deadline.Proofs, now deadline.Instant) deadline.Proofs {
			return p.Arm(x.watcher, stream, now)
		})
	}
	a.last++
	x.record(a.last, d.cfg.Clock())
	return heartbeat.Beat{Number: a.last, Arming: stream, Watched: own.Incarnation, Watcher: x.watcher, Times: times,
			Heard: x.heard},
		times.HeartbeatEvery()
}

// record remembers when a heartbeat is sent.
func (x *armedStream) record(number uint64, at deadline.Instant) {
	if len(x.sent) >= maxOutstanding {
		clear(x.sent) // their acknowledgements would prove nothing any more
	}
	x.sent[number], x.last = at, number
}

// Acknowledged implements [heartbeat.Armer].
func (d *Detector) Acknowledged(stream, number uint64) {
	a := d.armer
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.streams[stream]
	if x == nil {
		return
	}
	if number <= x.last {
		x.heard = max(x.heard, number)
	}
	sent, known := x.sent[number]
	if !known {
		return
	}
	for n := range x.sent {
		if n <= number {
			delete(x.sent, n)
		}
	}
	x.session.UpdateProofs(func(p *deadline.Proofs, now deadline.Instant) deadline.Proofs {
		return p.OnAcknowledged(x.watcher, sent, now)
	})
}

// SaidGoodbye implements [heartbeat.Armer].
func (d *Detector) SaidGoodbye(stream uint64) {
	a := d.armer
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.streams[stream]
	if x == nil {
		return
	}
	delete(a.streams, stream)
	x.session.UpdateProofs(func(p *deadline.Proofs, now deadline.Instant) deadline.Proofs {
		return p.OnRelease(stream, now)
	})
}

// dropGone drops the watchers that are members no more, and forgets the streams that arm none. The state s must show
// that this member is one: if not, a watcher may have removed it before.
func (a *armer) dropGone(s *state.Snapshot) {
	session := a.d.cfg.Keeper.Current()
	if session == nil {
		return
	}
	if own := s.Member(a.d.cfg.Address); own == nil || own.KeyLease != int64(session.ID()) || s.Lingers(own) {
		return
	}
	if session.Proofs().Armed() > 0 {
		session.UpdateProofs(func(p *deadline.Proofs, now deadline.Instant) deadline.Proofs {
			return p.OnMembers(s.Revision, func(watcher int64) bool { return suspicion.IsMember(s, watcher) }, now)
		})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.d.cfg.Keeper.Current() != session {
		return // the streams may be those of its successor
	}
	for stream, x := range a.streams {
		if x.session != session || !session.Proofs().ArmedAt(x.watcher, stream) {
			delete(a.streams, stream)
		}
	}
}

// allowSessions finds out for each session whether its user may read and delete the accusations of silence. Until
// then, and without that right, the session arms no watcher, and its lease decides. Without it no member arms this
// process either.
func (a *armer) allowSessions(ctx context.Context) {
	var s *etcdsession.Session
	for {
		next, err := a.d.cfg.Keeper.Wait(ctx, s)
		if err != nil {
			return
		}
		s = next
		a.allowSession(ctx, s)
	}
}

// allowSession tries to read and delete the accusations until etcd allows it. A right may be granted at any time.
func (a *armer) allowSession(ctx context.Context, s *etcdsession.Session) {
	ctx, cancel := wait.MergeContexts(ctx, s.Context())
	defer cancel()
	prefix, refused := a.d.cfg.Keys.SilenceAccusationsOf(a.d.cfg.Address), false
	for {
		attempt, cancel := context.WithTimeout(ctx, requestTimeout)
		_, err := a.d.cfg.Client.Txn(attempt).Then(
			clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly()),
			clientv3.OpDelete(prefix, clientv3.WithPrefix())).Commit() // they are about an earlier session
		cancel()
		again := suspicion.WithdrawRetry.Delay(1, a.d.cfg.Random())
		switch {
		case err == nil:
			a.mu.Lock()
			a.allowed = s
			a.mu.Unlock()
			a.setRefused(false)
			return
		case !errors.Is(err, rpctypes.ErrPermissionDenied):
		case refused:
			again = refusedPause
		default:
			refused, again = true, refusedPause
			a.setRefused(true)
			level := hclog.Warn
			if a.d.cfg.Settings.SilenceTimeout <= 0 {
				level = hclog.Debug
			}
			a.d.log.Log(level, "this node is not replaced when it stands still before its lease ends, and replaces no such "+
				"node: etcd refuses its user the accusations of silence; grant READ and WRITE as goversed rbac prints it, or "+
				"turn that off (--silence-timeout 0, CrashDetection.SilenceTimeout -1)", "prefix", prefix, "error", err)
		}
		if !wait.For(ctx, again) {
			return
		}
	}
}

// setRefused records whether etcd refuses this process's user the accusations of silence. If that has changed, all
// watches are opened anew, because each offers at its beginning whether it acknowledges heartbeats.
func (a *armer) setRefused(refused bool) {
	if a.refused.Swap(refused) != refused {
		a.d.reopenWatches()
	}
}
