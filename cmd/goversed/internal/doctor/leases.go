package doctor

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/state"
)

const (
	// maxLeases limits the leases of the cluster that are read, and maxOtherLeases the other leases.
	maxLeases      = 1024
	maxOtherLeases = 256
)

// readLeases reads the leases of keys in the cluster's range, and some others.
func (x *examiner) readLeases(ctx context.Context, client *clientv3.Client, kvs []state.KV) diagnosis.LeaseFacts {
	ctx, cancel := context.WithTimeout(ctx, 4*stepTimeout)
	defer cancel()
	out := diagnosis.LeaseFacts{ByID: map[int64]diagnosis.Lease{}, Total: -1}
	var own []int64
	for _, kv := range kvs {
		if kv.Lease != 0 {
			own = append(own, kv.Lease)
		}
	}
	slices.Sort(own)
	own = slices.Compact(own)
	own = own[:min(len(own), maxLeases)]
	var mu sync.Mutex
	runConcurrently(len(own), func(i int) {
		said, err := client.TimeToLive(ctx, clientv3.LeaseID(own[i]))
		if err != nil || said.TTL < 0 {
			return // it has ended meanwhile
		}
		mu.Lock()
		defer mu.Unlock()
		out.ByID[own[i]] = diagnosis.Lease{Left: time.Duration(said.TTL) * time.Second,
			Granted: time.Duration(said.GrantedTTL) * time.Second}
	})
	all, err := client.Leases(ctx)
	if err != nil {
		return out
	}
	out.Total = len(all.Leases)
	var strange []clientv3.LeaseID
	for _, l := range all.Leases {
		if _, known := slices.BinarySearch(own, int64(l.ID)); !known && len(strange) < maxOtherLeases {
			strange = append(strange, l.ID)
		}
	}
	runConcurrently(len(strange), func(i int) {
		said, err := client.TimeToLive(ctx, strange[i], clientv3.WithAttachedKeys())
		if err != nil && !connect.LacksPermission(err) || err == nil && said.TTL < 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		out.Examined++
		if err == nil && len(said.Keys) == 0 {
			out.Empty++
		}
	})
	return out
}
