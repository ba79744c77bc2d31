package operator

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/mirror"
)

// begin gets what a request to the cluster needs: the lease that it stands on for at most
// timeout, and a mirror that has read the cluster. end gives both back.
func (o *Operator) begin(ctx context.Context,
	timeout time.Duration) (lease clientv3.LeaseID, m *mirror.Mirror, end func(), err error) {
	lease, err = o.connect(ctx, timeout)
	if err != nil {
		return 0, nil, nil, err
	}
	m, stop := o.mirror(ctx)
	end = func() {
		stop()
		o.revoke(ctx, lease)
	}
	select {
	case <-m.Ready():
		return lease, m, end, nil
	case <-ctx.Done():
		end()
		return 0, nil, nil, o.explain(ctx, ctx.Err())
	}
}

// connect sees that etcd answers, soon, and grants the lease that the request
// stands on: should this process die, the request dies with it.
func (o *Operator) connect(ctx context.Context, timeout time.Duration) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if _, err := o.read(ctx); err != nil {
		return 0, err
	}
	resp, err := o.client.Grant(ctx, int64(timeout/time.Second)+2)
	if err != nil {
		return 0, o.explain(ctx, fmt.Errorf("grant a lease for the request: %w", err))
	}
	return resp.ID, nil
}

// revoke also when ctx has ended. If it fails the lease runs out by itself.
func (o *Operator) revoke(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = o.client.Revoke(ctx, lease)
}
