package operator

import (
	"context"

	"github.com/goverse/goverse/internal/etcd/watchcache"
)

// begin sees that etcd answers, soon, and gets what a request to the cluster needs: a mirror that has
// read the cluster, until stop.
func (o *Operator) begin(ctx context.Context) (m *watchcache.Mirror, stop func(), err error) {
	soon, cancel := context.WithTimeout(ctx, connectTimeout)
	_, err = o.read(soon)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	m, stop = o.mirror(ctx)
	select {
	case <-m.Ready():
		return m, stop, nil
	case <-ctx.Done():
		stop()
		return nil, nil, o.explain(ctx, ctx.Err())
	}
}
