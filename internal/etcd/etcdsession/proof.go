package etcdsession

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/etcd/deadline"
)

// Other members may remove this one: after they found its process gone, or, if it has armed them, after its silence.
// Before that they write an accusation, and wait. So every read of the session's keys also reads the accusations. A
// read that shows one proves nothing: the session deletes it first. What it reads cannot be late, as a mirror can.
//
// With armed watchers the session is valid only while deadline.Proofs hold. A lapse ends no lease and no candidacy.
// It ends the period, as a suspicion does, unless it is over before anything has noticed. A process that stood still
// finds its proofs lapsed when it continues; its period goes on if a read finds soon that it is still a member.

// Accusations describes the keys by which other members accuse this session's holder.
type Accusations struct {
	// Ranges are the prefixes of the keys.
	Ranges []string
	// Silence is the prefix of those about its silence. It is read only once a watcher was armed.
	Silence string
	// OnRefuted, if set, is called with the keys of accusations that this session has deleted. It must not block.
	OnRefuted func(keys []string)
}

// lapseConfirm is the time in which a read can confirm the session, after a pause of the process over which its proofs
// have lapsed, before its period ends.
const lapseConfirm = 250 * time.Millisecond

// maxProofReads limits the reads in progress that nothing but a proof needs.
const maxProofReads = 4

var (
	// errAccused is returned if an accusation stands and could not be deleted.
	errAccused = errors.New("another member accuses this one")
	// errLapsed is the reason for a suspension after the proofs have lapsed.
	errLapsed = errors.New("no watcher acknowledged a heartbeat and no read was answered for so long that another " +
		"member may remove this one")
)

// Proofs returns the present proofs. It reads an atomic.
func (s *Session) Proofs() *deadline.Proofs { return s.proofs.Load() }

// ProofsNow returns the proofs as of now, and the instant. They have lapsed if none of them holds then.
func (s *Session) ProofsNow() (deadline.Proofs, deadline.Instant) {
	now := s.cfg.Clock()
	return s.proofs.Load().At(now), now
}

// BeginProofs prepares the session for armed watchers. Call it before the first one is armed; later calls have no
// effect.
func (s *Session) BeginProofs(times deadline.ProofTimes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proofs.Load().Times() != (deadline.ProofTimes{}) {
		return
	}
	p := deadline.NewProofs(times)
	s.proofs.Store(&p)
	if s.lost == nil {
		s.wg.Go(s.proofLoop)
	}
}

// UpdateProofs replaces the proofs by what change returns for them. Change must only compute.
func (s *Session) UpdateProofs(change func(p *deadline.Proofs, now deadline.Instant) deadline.Proofs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock()
	s.setProofs(change(s.proofs.Load(), now), now)
}

// setProofs makes p the present proofs at now. The lock is held.
func (s *Session) setProofs(p deadline.Proofs, now deadline.Instant) {
	before := s.proofs.Load()
	lapsed := before.Lapsed()
	s.proofs.Store(&p)
	// A lapse that ends before it was noticed here was perhaps noticed by others, who wait for its end.
	if lapsed != p.Lapsed() || !lapsed && !before.Valid(now) {
		s.notifyListeners()
		s.wakeDeadline.Send()
		s.wakeProof.Send()
	}
}

// checkProofs ends the period if the proofs have lapsed. The lock is held.
func (s *Session) checkProofs(now deadline.Instant) {
	p := s.proofs.Load().At(now)
	if p.Lapsed() && !s.proofs.Load().Lapsed() {
		s.setProofs(p, now)
	}
	if !p.Lapsed() {
		s.lapseSuspended = false
		return
	}
	if s.lapseSuspended || s.pauses.Load().StoodSince(now, lapseConfirm) {
		return
	}
	// Only a round that is sent from now on makes the session valid again, in another period.
	s.lapseSuspended = true
	before := s.claim.Load()
	s.setClaim(before.Suspect(now, 0))
	if s.endRound != nil && !before.Suspected() {
		s.endRound(errSuspected) // as in Suspect
	}
	s.RequestRenewal()
}

// proofLoop sends reads while acknowledgements of armed watchers are missing. It does not wait for the answers.
func (s *Session) proofLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	slots := make(chan struct{}, maxProofReads)
	for {
		select {
		case <-timer.C:
		case <-s.wakeProof:
		case <-s.ctx.Done():
			return
		}
		p := s.proofs.Load()
		every := p.Times().ReadEvery()
		again := every
		if left := p.UntilRead(s.cfg.Clock(), every); left > 0 && !s.proofRequested.Swap(false) {
			again = left
		} else {
			select {
			case slots <- struct{}{}:
				s.wg.Go(func() {
					s.sendProofRead(p.Times().Read)
					<-slots
				})
			default:
			}
		}
		timer.Reset(again)
	}
}

// requestProof requests a read now, if a watcher is armed.
func (s *Session) requestProof() {
	if p := s.proofs.Load(); p.Armed() > 0 || p.Lapsed() {
		s.proofRequested.Store(true)
		s.wakeProof.Send()
	}
}

// sendProofRead reads the session's keys and the accusations. After within the answer would prove nothing.
func (s *Session) sendProofRead(within time.Duration) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(s.ctx), within)
	defer cancel()
	s.mu.Lock()
	protected, known := s.protected, s.revision
	s.mu.Unlock()
	_, _ = s.readProtectedKeys(ctx, protected, max(known, s.cfg.View.KnownRevision())) // the next one follows soon
}

// accusationRanges returns the prefixes to read.
func (s *Session) accusationRanges() []string {
	a := s.cfg.Accusations
	if a.Silence != "" && s.proofs.Load().Times() != (deadline.ProofTimes{}) {
		return append(a.Ranges[:len(a.Ranges):len(a.Ranges)], a.Silence)
	}
	return a.Ranges
}

// settleAccusations examines what a read, sent at the instant asked, has shown of the accusations. If there are some,
// it deletes them. Unless that fails, it records the proof. Without a key on which the session depends a read proves
// nothing: the request may have waited since before the holder was registered.
func (s *Session) settleAccusations(ctx context.Context, shown []*etcdserverpb.ResponseOp,
	protected []*Protection, asked deadline.Instant) error {
	var own []clientv3.Cmp
	for _, p := range protected {
		if p.lost == nil {
			own = append(own, clientv3.Compare(clientv3.CreateRevision(p.key), "=", p.create))
		}
	}
	if len(own) == 0 {
		return nil // accusations are about an earlier session
	}
	var keys []string
	for _, r := range shown {
		for _, kv := range r.GetResponseRange().GetKvs() {
			keys = append(keys, string(kv.Key))
		}
	}
	if len(keys) == 0 {
		s.recordProof(asked)
		return nil
	}
	sent := s.cfg.Clock() // before the ranges are chosen, as that of the read
	var deletions []clientv3.Op
	for _, prefix := range s.accusationRanges() {
		deletions = append(deletions, clientv3.OpDelete(prefix, clientv3.WithPrefix()))
	}
	resp, err := s.cfg.Client.Txn(ctx).If(own...).Then(deletions...).Commit()
	switch {
	case err != nil:
		return errors.Join(errAccused, err)
	case !resp.Succeeded:
		err := errors.New("the session's keys are gone: another member removed this one")
		s.EndLocally(session.ReasonKeyLost, err)
		return err
	}
	s.recordProof(sent)
	deleted := int64(0)
	for _, r := range resp.Responses {
		deleted += r.GetResponseDeleteRange().GetDeleted()
	}
	if deleted > 0 && s.cfg.Accusations.OnRefuted != nil {
		s.cfg.Accusations.OnRefuted(keys)
	}
	return nil
}

// recordProof records a read, sent at the instant sent, that found the session's keys and no accusation. It ends the
// suspension that followed from a lapse. A round would do so later, if its renewal hangs at a member of etcd that is
// gone.
func (s *Session) recordProof(sent deadline.Instant) {
	s.mu.Lock()
	now := s.cfg.Clock()
	p := s.proofs.Load().OnRead(sent, now)
	s.setProofs(p, now)
	again := false
	if claim := s.claim.Load(); !p.Lapsed() {
		s.lapseSuspended = false // the next lapse is another one
		if s.lost == nil && claim.Suspected() && !s.roundNeeded {
			again = s.setClaim(claim.OnRead(sent, now))
		}
	}
	s.mu.Unlock()
	if again {
		s.logConfirmed()
	}
}

func (s *Session) logConfirmed() {
	s.cfg.Logger.Info("etcd confirmed the session: no longer suspended", "lease", leaseName(s.id))
}
