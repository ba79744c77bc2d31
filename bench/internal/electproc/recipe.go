package electproc

import (
	"context"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// runRecipe elects with etcd's concurrency.Election.
func runRecipe(ctx context.Context, job Job) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{job.Etcd}, DialTimeout: 2 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	for ctx.Err() == nil {
		if err := leadOneSession(ctx, client, job); err != nil && ctx.Err() == nil {
			log.Printf("campaign again: %v", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// leadOneSession campaigns with a new session, and leads until the session is lost or ctx ends.
func leadOneSession(ctx context.Context, client *clientv3.Client, job Job) error {
	ttl := int(job.TTL / time.Second)
	lease, err := client.Grant(ctx, int64(ttl)) // NewSession would not end with ctx
	if err != nil {
		return err
	}
	session, err := concurrency.NewSession(client, concurrency.WithLease(lease.ID), concurrency.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // hands over; a lost session has nothing to revoke
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the session
		<-session.Done()
		cancel()
	}()
	job.Queued()
	if err := concurrency.NewElection(session, job.Prefix).Campaign(ctx, job.ID); err != nil {
		return err
	}
	job.Work(ctx)
	return nil
}
