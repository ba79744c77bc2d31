package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/session"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/txn"
)

// ErrMemberGone: the member that was asked left, or registered anew, before the wish was
// put down.
var ErrMemberGone = errors.New("the node left, or joined anew, meanwhile")

// withdrawTimeout bounds taking a wish back.
const withdrawTimeout = time.Second

// AskDrain puts down the wish that m gives its shards up and gets none, or with undo that
// it may have some again. m answers in its record, whose Draining it sets or clears, and
// keeps to that, also when the wish is gone and when it registers anew after a lost
// session, until it is asked otherwise or its process ends. Nothing else about it changes:
// it stays a member, and leads if it did. A member that is Stopping drains whatever is
// wished.
//
// AskDrain blocks until etcd has taken the wish, not until m answers. The wish stands on
// the asker's lease; withdraw takes it back, unless somebody has wished otherwise since. It
// must be called, and once m has answered: a wish that stood for a moment may not be seen. There is one wish for a member: the last one counts. Errors are
// ErrMemberGone and etcd's.
func AskDrain(ctx context.Context, client *clientv3.Client, keys state.Keys, lease clientv3.LeaseID, m *state.Member, undo bool) (withdraw func(), err error) {
	resp, err := txn.Commit(ctx, client, txn.AskDrain(keys, m, int64(lease), undo))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask %s: %w", m.Address, err)
	case !resp.Succeeded:
		return nil, fmt.Errorf("%s: %w; goversed nodes shows who is there", m.Address, ErrMemberGone)
	}
	return func() {
		// Also if the asker's context has ended. If it fails the lease takes the wish along.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
		defer cancel()
		_, _ = txn.Commit(ctx, client, txn.UnaskDrain(keys, m.Address, resp.Header.Revision))
	}, nil
}

// drains is whether a member gives its shards up: as its record says already, unless a wish
// about this very incarnation stands. Who stops does in any case.
func drains(record state.Record, incarnation int64, wish *state.Drain) bool {
	switch {
	case record.Stopping:
		return true
	case wish == nil || wish.Incarnation != incarnation:
		return record.Draining
	}
	return !wish.Undo
}

// heed brings the record in line with what the snapshot shows as wished, and returns it
// with the session and the incarnation that it belongs to.
func (m *membership) heed(snap *state.Snapshot) (s *session.Session, incarnation int64, want state.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if snap != nil && m.incarnation != 0 {
		if now := drains(m.record, m.incarnation, snap.Drain(m.address)); now != m.record.Draining {
			m.record.Draining = now
			if now {
				m.log.Info("an operator drains this node: it gives its shards up, and gets none until that is undone or it starts again")
			} else {
				m.log.Info("an operator ended the drain of this node: it may have shards again")
			}
		}
	}
	return m.session, m.incarnation, m.record
}
