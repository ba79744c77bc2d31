package operator

import (
	"context"

	"github.com/goverse/goverse/internal/etcd/watchcache"
)

// openMirror checks that etcd answers soon, and returns a mirror that has read the cluster. It runs until stop is
// called.
func (o *Operator) openMirror(ctx context.Context) (m *watchcache.Mirror, stop func(), err error) {
	soon, cancel := context.WithTimeout(ctx, connectTimeout)
	_, err = o.read(soon)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	m, stop = o.runMirror(ctx)
	select {
	case <-m.Ready():
		return m, stop, nil
	case <-ctx.Done():
		stop()
		return nil, nil, o.explain(ctx, ctx.Err())
	}
}
