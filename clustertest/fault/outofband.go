package fault

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrNotThere is returned when the key to delete or revoke does not exist, or is on no lease.
var ErrNotThere = errors.New("no such key in etcd")

// RevokeLease revokes the lease of a key out of band, as an operator does with etcdctl. The key and all other
// keys on the lease vanish. Given a node's key, it revokes the node's session; docs/protocols.md has the names
// of these keys. If the key does not exist or is on no lease, the error matches ErrNotThere.
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

// DeleteKey deletes a key out of band, whatever its value, as an operator does with etcdctl. The key's lease
// stays alive. If the key does not exist, the error matches ErrNotThere.
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
