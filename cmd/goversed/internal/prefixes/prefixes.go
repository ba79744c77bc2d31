// Package prefixes finds the clusters in one etcd, to help operators that gave the wrong prefix.
//
// Not promised: it may miss clusters. It reads a limited number of keys, and only those that its user may read.
package prefixes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/state"
)

const (
	// MaxKeys limits the keys that are searched for clusters.
	MaxKeys = maxPages * pageSize
	// maxPages and pageSize limit the requests of a search, and maxPrefixes the clusters it finds.
	maxPages    = 25
	pageSize    = 200
	maxPrefixes = 20
)

// searchTimeout limits a search.
const searchTimeout = 8 * time.Second

// SearchResult is the result of a search.
type SearchResult struct {
	// Prefixes lists the prefixes that have nodes, in order.
	Prefixes []Prefix
	// Denied reports that the user may not search for them. More reports that not all keys were searched.
	Denied, More bool
}

// Prefix is the prefix of one cluster, with the number of keys of nodes seen under it.
type Prefix struct {
	Prefix string
	Nodes  int
}

// String returns the prefix and the number of nodes.
func (p Prefix) String() string {
	if p.Nodes == 1 {
		return p.Prefix + " (1 node)"
	}
	return fmt.Sprintf("%s (%d nodes)", p.Prefix, p.Nodes)
}

// Find searches for clusters under prefixes other than own. It reads a limited number of keys, and skips the
// long queues of clusters. It blocks for at most eight seconds, or until ctx ends.
func Find(ctx context.Context, client *clientv3.Client, own string) (out SearchResult) {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	from := "\x00"
	for range maxPages {
		resp, err := client.Get(ctx, from, clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize))
		if err != nil {
			out.Denied = connect.LacksPermission(err)
			out.More = !out.Denied
			return out
		}
		for _, kv := range resp.Kvs {
			key := string(kv.Key)
			if key < from {
				continue
			}
			prefix, behind := splitNodeKey(key)
			if behind == "" { // a key of a node, or of no cluster
				from = key + "\x00"
			} else {
				from = behind
			}
			if prefix == "" || behind != "" || prefix == own {
				continue
			}
			i := slices.IndexFunc(out.Prefixes, func(p Prefix) bool { return p.Prefix == prefix })
			switch {
			case i >= 0:
				out.Prefixes[i].Nodes++
			case len(out.Prefixes) < maxPrefixes && isNode(ctx, client, key):
				out.Prefixes = append(out.Prefixes, Prefix{Prefix: prefix, Nodes: 1})
			}
		}
		if !resp.More {
			return out
		}
	}
	out.More = true
	return out
}

// isNode reports whether the value of a key is the record of a node. Other programs have keys with nodes, too.
func isNode(ctx context.Context, client *clientv3.Client, key string) bool {
	resp, err := client.Get(ctx, key)
	if err != nil || len(resp.Kvs) == 0 {
		return false
	}
	record, err := state.DecodeRecord(resp.Kvs[0].Value)
	return err == nil && record.InstanceID != ""
}

// longRanges lists the parts of a cluster's keys that may be very long. None of them contains keys of nodes.
var longRanges = []string{"/elections/", "/events/", "/leader/", "/shards/", "/work/"}

// splitNodeKey returns the prefix of the cluster if key looks like the key of a node. If the key lies in a long
// part of a cluster's keys without nodes, behind is the key after that part.
func splitNodeKey(key string) (prefix, behind string) {
	if before, address, ok := strings.Cut(key, "/nodes/"); ok && address != "" && !strings.Contains(address, "/") {
		if _, err := state.NewKeys(before); err == nil {
			return before, ""
		}
	}
	for _, queue := range longRanges {
		if before, _, ok := strings.Cut(key, queue); ok && !strings.Contains(key, "/nodes/") {
			if _, err := state.NewKeys(before); err == nil {
				return before, before + strings.TrimSuffix(queue, "/") + "0"
			}
		}
	}
	return "", ""
}
