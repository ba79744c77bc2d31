//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

// RevokePaused causes, at the worst moment, a fault that a deposed leader of etcd can cause. While the leading
// node's process is paused for longer than the others wait for it, its lease, which is older than etcd's raft
// term, is revoked. The process resumes long before its deadline and has not learned of it. RevokePaused does
// that rounds times and returns the verdict on the history.
func RevokePaused(ctx context.Context, cfg Config, rounds int) (v history.Verdict, err error) {
	w, err := newWorld(ctx, cfg)
	if err != nil {
		return v, err
	}
	for range rounds {
		if err = w.revokePaused(ctx); err != nil {
			break
		}
	}
	if err == nil {
		err = errors.Join(w.awaitCalm(ctx), w.stop(ctx))
	}
	if err := errors.Join(err, w.close()); err != nil {
		return v, err
	}
	return w.judgeRecords()
}

func (w *world) revokePaused(ctx context.Context) error {
	// This makes all leases older than etcd's raft term; their sessions learn of it with the next renewal.
	if err := w.moveLead(ctx); err != nil {
		return err
	}
	wait.For(ctx, time.Duration(w.cfg.TTL)*time.Second/2)
	n := w.leader()
	if n == nil {
		return errors.New("nobody leads")
	}
	s := w.mirror.Snapshot()
	own, leader := s.Member(n.address()), s.Leader()
	if own == nil || leader.Lease != own.Lease {
		return fmt.Errorf("%s leads and is not registered", n.address())
	}
	end := w.rec.BeginFault(n.address(), "paused, and its lease revoked", "")
	_, err := n.currentProcess().Freeze()
	if err == nil {
		_, err = w.client.Revoke(ctx, clientv3.LeaseID(own.Lease))
	}
	if err == nil {
		_, err = w.awaitSnapshot(ctx, effectPatience, "another one leads", func(s *state.Snapshot) bool {
			l := s.Leader()
			return l.Address != "" && l.Token != leader.Token
		})
	}
	wait.For(ctx, 300*time.Millisecond) // the others wait for 200 ms
	_, thawed := n.currentProcess().Thaw()
	if err := errors.Join(err, thawed); err != nil {
		return err
	}
	wait.For(ctx, 200*time.Millisecond) // long enough for any claim that it may still make
	end()
	return errors.Join(n.awaitBack(ctx, own.Incarnation), w.awaitCalm(ctx))
}

// moveLead transfers etcd's leadership to another member.
func (w *world) moveLead(ctx context.Context) error {
	if err := w.awaitMembersJoined(ctx); err != nil {
		return err
	}
	leads := w.etcdLeader(ctx)
	for _, m := range w.members {
		if leads != nil && m != leads {
			return errors.Join(leads.moveLead(ctx, m), w.awaitMembersJoined(ctx))
		}
	}
	return errors.New("no member of etcd leads")
}
