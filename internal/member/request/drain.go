// Package request makes the requests of operators and members to a member, as keys on the lease
// of who asks: they are carried out by the node that they name.
//
// Not promised: that a request is carried out; the node that it names may leave first.
package request

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

// ErrMemberGone: the member named left, or registered anew, before the request was written.
var ErrMemberGone = errors.New("the node left, or joined anew, meanwhile")

// Drain requests that m gives its shards up and gets none, or with undo that it may have some
// again. m answers in its record, whose Draining it sets or clears, and keeps to that, also
// when the request is gone and when it registers anew after a lost session, until it is asked
// otherwise or its process ends. Nothing else about it changes: it stays a member, and leads if
// it did. A member that is Stopping drains whatever is requested.
//
// Drain blocks until etcd has taken the request, not until m answers. It stands on the given lease and
// ends with that, which should be once m has answered: a request that stood for a moment may not be
// seen. There is one request for a member: the last one counts. Errors are ErrMemberGone and etcd's;
// after etcd's it may stand all the same.
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
