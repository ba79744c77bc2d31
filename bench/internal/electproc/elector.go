package electproc

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/elector"
)

// runElector elects with cluster/elector and a record in etcd.
func runElector(ctx context.Context, job Job) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{job.Etcd}, DialTimeout: 2 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	store, err := elector.NewEtcd(elector.EtcdConfig{Client: client, Prefix: job.Prefix, Name: "job"})
	if err != nil {
		return err
	}
	e, err := elector.New(elector.Config{LeaseStore: store, CandidateID: job.ID, LeaseDuration: job.TTL,
		ReleaseOnCancel: true, OnStartedLeading: job.Work})
	if err != nil {
		return err
	}
	job.Queued()
	return e.Run(ctx)
}
