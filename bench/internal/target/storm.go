package target

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
)

// stormTimeout limits a concurrent join of all nodes.
const stormTimeout = 10 * time.Minute

// storm holds the results of an action that all nodes take at the same time.
type storm struct {
	took    time.Duration
	tally   etcdproc.Tally
	cpu     time.Duration // of this process
	orphans int           // leases left to expire
}

// joinAtOnce starts all nodes of f at the same time and waits until they agree.
func joinAtOnce(ctx context.Context, p *etcdproc.Process, client *clientv3.Client,
	f *fleet.Fleet) (s storm, err error) {
	ctx, cancel := context.WithTimeout(ctx, stormTimeout)
	defer cancel()
	s.tally, err = p.Tally(ctx, func() error {
		started, used := time.Now(), cpuTime()
		if err := f.Start(ctx); err != nil {
			return err
		}
		if err := f.AwaitAgreement(ctx); err != nil {
			return err
		}
		s.took, s.cpu = time.Since(started), cpuTime()-used
		return nil
	})
	if err != nil {
		return s, err
	}
	s.orphans, err = f.Orphans(ctx, client)
	return s, err
}

// restartAtOnce makes all nodes crash and starts them again at their addresses, while their keys and leases are
// still in etcd.
func restartAtOnce(ctx context.Context, p *etcdproc.Process, client *clientv3.Client, f *fleet.Fleet) (storm, error) {
	if err := f.Crash(); err != nil {
		return storm{}, err
	}
	if err := f.Revive(ctx); err != nil {
		return storm{}, err
	}
	return joinAtOnce(ctx, p, client, f)
}

func (s storm) String() string {
	return fmt.Sprintf("%.2f s; %.0f requests, %.0f messages to watches, %.1f MiB sent; %.1f s of etcd's processor, "+
		"%.1f s of the nodes'; %d leases left to run out",
		s.took.Seconds(), s.tally.Requests, s.tally.Delivered, s.tally.Sent/mib, s.tally.CPU.Seconds(), s.cpu.Seconds(),
		s.orphans)
}
