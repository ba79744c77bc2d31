package fault

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrNotThere: the key that was to be harmed does not exist, or is on no lease.
var ErrNotThere = errors.New("no such key in etcd")

// RevokeLease revokes the lease that a key is on, as an operator does with etcdctl: the key
// and all others on the lease vanish. With the key of a node (docs/protocols.md has its
// name) that is the node's session. Without such a key, or a lease on it, the error
// matches ErrNotThere.
func RevokeLease(ctx context.Context, client *clientv3.Client, key string) error {
	resp, err := client.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("fault: read %s: %w", key, err)
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].Lease == 0 {
		return fmt.Errorf("fault: revoke the lease of %s: %w, or it is on no lease", key, ErrNotThere)
	}
	if _, err := client.Revoke(ctx, clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		return fmt.Errorf("fault: revoke the lease of %s: %w", key, err)
	}
	return nil
}

// DeleteKey deletes a key whatever it holds by now, as an operator does with etcdctl. The
// lease that it is on lives on. Without such a key the error matches ErrNotThere.
func DeleteKey(ctx context.Context, client *clientv3.Client, key string) error {
	resp, err := client.Delete(ctx, key)
	if err != nil {
		return fmt.Errorf("fault: delete %s: %w", key, err)
	}
	if resp.Deleted == 0 {
		return fmt.Errorf("fault: delete %s: %w", key, ErrNotThere)
	}
	return nil
}
