package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/etcd/connect"
)

// testAccess tests the user's rights in each range that the program needs.
func (x *examiner) testAccess(ctx context.Context, client *clientv3.Client) []diagnosis.Access {
	ranges := access.Ranges(x.Keys, x.Program)
	out := make([]diagnosis.Access, len(ranges))
	var wg sync.WaitGroup
	for i, r := range ranges {
		wg.Go(func() { out[i] = testRange(ctx, client, r) })
	}
	wg.Wait()
	return out
}

// testRange reads one key of the range, watches it, and has etcd check writes.
func testRange(ctx context.Context, client *clientv3.Client, r access.Range) diagnosis.Access {
	ctx, cancel := context.WithTimeout(ctx, 2*stepTimeout)
	defer cancel()
	a := diagnosis.Access{Range: r}
	read := []clientv3.OpOption{clientv3.WithKeysOnly(), clientv3.WithLimit(1)}
	watch := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if r.End != "" {
		read, watch = append(read, clientv3.WithRange(r.End)), append(watch, clientv3.WithRange(r.End))
	}
	_, err := client.Get(ctx, r.Start, read...)
	if a.NoRead = connect.LacksPermission(err); err != nil && !a.NoRead {
		a.Failed = findingText(err)
		return a
	}
	if !a.NoRead {
		if a.NoWatch, err = watchRefused(ctx, client, r.Start, watch); err != nil {
			a.Failed = findingText(err)
			return a
		}
	}
	if r.Right != access.ReadWrite {
		return a
	}
	for _, parts := range append([][]access.Part{r.Parts}, splitParts(r.Parts)...) {
		refused, err := writeRefused(ctx, client, parts)
		switch {
		case err != nil:
			a.Failed = findingText(err)
			return a
		case !refused && len(parts) == len(r.Parts):
			return a
		case refused && len(parts) == 1:
			a.NoWrite = append(a.NoWrite, parts...)
		}
		if len(r.Parts) == 1 {
			return a
		}
	}
	return a
}

func splitParts(parts []access.Part) (out [][]access.Part) {
	for i := range parts {
		out = append(out, parts[i:i+1])
	}
	return out
}

// probeSuffix is the last part of keys that are never written.
const probeSuffix = "goversed-doctor"

// writeRefused reports whether etcd refuses the user a write in any of the parts. The writes are in the branch
// for a failed condition, and the transaction has no condition, so they are never carried out.
func writeRefused(ctx context.Context, client *clientv3.Client, parts []access.Part) (bool, error) {
	var never []clientv3.Op
	for _, p := range parts {
		key := p.Key
		if strings.HasSuffix(key, "/") {
			key += probeSuffix
		}
		never = append(never, clientv3.OpPut(key, ""))
	}
	_, err := client.Txn(ctx).Else(never...).Commit()
	switch {
	case connect.LacksPermission(err):
		return true, nil
	case errors.Is(err, rpctypes.ErrNoSpace):
		return false, nil // it refuses all users, and there is an alarm for it
	}
	return false, err
}

// watchRefused reports whether etcd refuses a watch.
func watchRefused(ctx context.Context, client *clientv3.Client, key string, opts []clientv3.OpOption) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, ok := <-client.Watch(ctx, key, opts...)
	switch {
	case !ok:
		return false, ctx.Err()
	case !first.Canceled:
		return false, nil
	case connect.LacksPermission(first.Err()):
		return true, nil
	}
	return false, fmt.Errorf("the watch was cancelled: %w", first.Err())
}

// mayWrite reports whether etcd refused nothing in the range of the key.
func mayWrite(all []diagnosis.Access, key string) bool {
	for _, a := range all {
		if a.Start <= key && key < a.End && a.Right == access.ReadWrite {
			return a.Failed == "" && !a.NoRead && !a.NoWatch && len(a.NoWrite) == 0
		}
	}
	return false
}

// ownKeyTTL is the TTL of the key that testOwnKey writes, in seconds. It exceeds the duration of that test.
const ownKeyTTL = 10

// testOwnKey writes a key of its own on a lease, waits until a watch shows it, and deletes it.
func (x *examiner) testOwnKey(ctx context.Context, client *clientv3.Client) diagnosis.KeyTest {
	ctx, cancel := context.WithTimeout(ctx, 2*stepTimeout)
	defer cancel()
	out := diagnosis.KeyTest{Tried: true}
	lease, err := client.Grant(ctx, ownKeyTTL)
	if err != nil {
		out.Failed = findingText(err)
		return out
	}
	err = x.writeOwnKey(ctx, client, lease.ID, &out)
	// Revoking the lease deletes the key, wherever writeOwnKey returned.
	if err = errors.Join(err, revokeLease(ctx, client, lease.ID)); err != nil {
		out.Failed = findingText(err)
	}
	return out
}

func (x *examiner) writeOwnKey(ctx context.Context, client *clientv3.Client, lease clientv3.LeaseID,
	out *diagnosis.KeyTest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := x.Keys.Doctor(fmt.Sprintf("%x", lease))
	watch := client.Watch(ctx, key, clientv3.WithCreatedNotify())
	if first, ok := <-watch; !ok || first.Err() != nil {
		return errors.Join(ctx.Err(), first.Err())
	}
	began := time.Now()
	put, err := client.Put(ctx, key, "", clientv3.WithLease(lease))
	if err != nil {
		return err
	}
	out.Written = time.Since(began)
	for seen := range watch {
		if err := seen.Err(); err != nil {
			return err
		}
		if len(seen.Events) > 0 && seen.Events[0].Kv.ModRevision >= put.Header.Revision {
			out.Seen = time.Since(began)
			_, err := client.Delete(ctx, key)
			return err
		}
	}
	return ctx.Err()
}
