package etcd_test

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goverse/goverse/cluster/objects/state"
	"github.com/goverse/goverse/cluster/objects/state/etcd"
)

// All objects of a process share the store. Each object loads its state when it is activated.
func Example() {
	open := func(client *clientv3.Client) (*etcd.Store, error) {
		return etcd.New(etcd.Config{Client: client, Prefix: "/shop/objects"})
	}
	type settings = state.State[*wrapperspb.StringValue]
	activate := func(ctx context.Context, store *etcd.Store, o state.Holder) (*settings, error) {
		return state.Load(ctx, store, o, wrapperspb.String("the default"))
	}
	_, _ = open, activate
}
