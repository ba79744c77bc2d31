package electproc

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// runClientGo elects with the elector of client-go. Its lock is in etcd; in Kubernetes, a LeaseLock would take the
// place of the client and of the lock.
func runClientGo(ctx context.Context, job Job) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{job.Etcd}, DialTimeout: 2 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	renewDeadline := job.TTL * 10 / 15 // Kubernetes has 15, 10 and 2 s
	lock, err := newEtcdLock(client, job.Prefix, job.ID, renewDeadline)
	if err != nil {
		return err
	}
	job.Queued()
	for ctx.Err() == nil {
		if err := leadOneTerm(ctx, lock, renewDeadline, job); err != nil {
			return err
		}
	}
	return nil
}

// leadOneTerm campaigns, and leads until the lease is lost or ctx ends. The elector releases the lease as soon as its
// context ends, so that context has to outlast the work.
func leadOneTerm(ctx context.Context, lock resourcelock.Interface, renewDeadline time.Duration, job Job) error {
	terms := make(chan context.Context, 1)
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{Lock: lock, ReleaseOnCancel: true,
		LeaseDuration: job.TTL, RenewDeadline: renewDeadline, RetryPeriod: job.TTL * 2 / 15,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) { terms <- term },
			OnStoppedLeading: func() {},
		}})
	if err != nil {
		return err
	}
	held, release := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Run(held)
	}()
	select {
	case term := <-terms:
		term, stop := context.WithCancel(term)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		job.Work(term)
	case <-ctx.Done():
	}
	release() // hands over
	<-ended
	return nil
}
