// Package request makes requests of operators and members to a member, as keys on a lease of the requester. The
// node that a request names carries it out.
//
// Not promised: that a request is carried out. The node that it names may leave first.
package request

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// ErrMemberGone is returned when the named member left or registered anew before the request was written.
var ErrMemberGone = errors.New("the node left, or joined anew, meanwhile")

// Drain requests that m release its shards and get none, or with undo that it may have shards again. m answers
// by setting or clearing Draining in its record. It keeps to that until the next request or the end of its
// process, even when the request is gone or when it registers anew after a lost session. Nothing else about m
// changes: it stays a member, and leads if it did. A Stopping member drains whatever is requested.
//
// Drain blocks until etcd has stored the request, not until m answers. The request ends with the given lease.
// Keep the lease until m has answered, because m may not see a request that stands only for a moment. There is
// one request per member: the last one counts. Errors are ErrMemberGone and etcd's; after the latter the
// request may stand all the same.
func Drain(ctx context.Context, client *clientv3.Client, keys state.Keys, lease clientv3.LeaseID, m *state.Member,
	undo bool) error {
	resp, err := txn.Commit(ctx, client, txn.RequestDrain(keys, m, int64(lease), undo))
	switch {
	case err != nil:
		return fmt.Errorf("ask %s: %w", m.Address, err)
	case !resp.Succeeded:
		return fmt.Errorf("%s: %w; goversed nodes shows who is there", m.Address, ErrMemberGone)
	}
	return nil
}
