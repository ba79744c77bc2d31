package target

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/fleet"
)

// stormTimeout bounds a join of all nodes at once.
const stormTimeout = 10 * time.Minute

// storm is all nodes doing the same at once.
type storm struct {
	took    time.Duration
	tally   etcdproc.Tally
	cpu     time.Duration // of this process
	orphans int           // leases that it left to run out
}

// joinAtOnce starts all nodes of f at the same time, until all agree.
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

// restartAtOnce makes all nodes crash, and starts them again at their addresses,
// where all that they had at etcd still stands.
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
