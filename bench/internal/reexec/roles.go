package reexec

import (
	"context"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// campaign leads until ctx ends. It resigns only if the process lives long enough.
func campaign(ctx context.Context, endpoint, prefix, ttl string) error {
	seconds, err := strconv.Atoi(ttl)
	if err != nil {
		return fmt.Errorf("the TTL: %w", err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 2 * time.Second,
		Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(seconds))
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	if err := concurrency.NewElection(session, prefix).Campaign(ctx, "old"); err != nil {
		return err
	}
	Ready("")
	<-ctx.Done()
	return nil
}

// spin keeps a thread busy until ctx ends.
func spin(ctx context.Context) error {
	Ready("")
	for ctx.Err() == nil {
		for range 1 << 20 {
		}
	}
	return nil
}
