package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/bench/internal/etcdproc"
)

// ErrLeft is wrapped by errors that report leftovers.
var ErrLeft = errors.New("left behind")

// NothingAtEtcd waits until etcd has no key, no lease, no watch and no watch stream. It fails with ErrLeft if
// there still is one when ctx ends. Watches of client count too.
func NothingAtEtcd(ctx context.Context, p *etcdproc.Process, client *clientv3.Client) error {
	tick := time.NewTicker(looking)
	defer tick.Stop()
	for {
		left, err := atEtcd(context.WithoutCancel(ctx), p, client)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w at etcd: %s", ErrLeft, strings.Join(left, ", "))
		}
	}
}

func atEtcd(ctx context.Context, p *etcdproc.Process, client *clientv3.Client) (left []string, err error) {
	keys, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return nil, err
	}
	events, err := client.Get(ctx, "/goverse/events/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return nil, err // the event log is meant to outlive the nodes
	}
	leases, err := client.Leases(ctx)
	if err != nil {
		return nil, err
	}
	metrics, err := p.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range []struct {
		what string
		n    int64
	}{
		{"keys", keys.Count - events.Count},
		{"leases", int64(len(leases.Leases))},
		{"watches", int64(metrics["etcd_debugging_mvcc_watcher_total"])},
		{"watch streams", int64(metrics["etcd_debugging_mvcc_watch_stream_total"])},
	} {
		if c.n != 0 {
			left = append(left, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return left, nil
}

// Goroutines records the running goroutines. The returned function waits a moment for the others to end, and
// fails with ErrLeft if some still run.
func Goroutines() func() error {
	http.DefaultClient.CloseIdleConnections() // it has read etcd's counters
	before := goleak.IgnoreCurrent()
	return func() error {
		http.DefaultClient.CloseIdleConnections()
		if err := goleak.Find(before); err != nil {
			return fmt.Errorf("goroutines %w: %w", ErrLeft, err)
		}
		return nil
	}
}
