package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/pgsession"
	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise"
)

// guardName is the hidden verb that exec and lock run beside the command.
const guardName = "guard"

func newGuard() *cobra.Command {
	var etcd etcdFlags
	var postgres postgresFlags
	cmd := &cobra.Command{
		Use:    guardName,
		Short:  "Watch a command for exec and lock",
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return supervise.Guard(supervise.Free(func(ctx context.Context, session int64) error {
				if postgres.url == "" {
					return revokeLease(ctx, &etcd, session)
				}
				return pgsession.End(ctx, pgsession.Config{URL: postgres.url, Schema: postgres.schema}, session)
			}))
		},
	}
	etcd.register(cmd.Flags(), "", etcdUsage)
	postgres.register(cmd.Flags(), "that keeps the election or lock")
	return cmd
}

// revokeLease revokes a lease in etcd.
func revokeLease(ctx context.Context, etcd *etcdFlags, lease int64) error {
	var cfg cluster.Config
	release, err := etcd.apply(&cfg)
	if err != nil {
		return err
	}
	defer release()
	client, err := operator.Etcd(cfg).Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close() // everything that matters was answered
	if _, err = client.Revoke(ctx, clientv3.LeaseID(lease)); errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil // the lease has expired
	}
	return err
}
