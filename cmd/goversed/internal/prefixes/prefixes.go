// Package prefixes finds the clusters that lie in one etcd, for those who have given the wrong prefix.
//
// Not promised: that all are found. It looks at a bounded number of keys, and at those that its user may read.
package prefixes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/state"
)

const (
	// MostKeys is how many keys are looked at for clusters.
	MostKeys = pages * pageSize
	// pages and pageSize bound how many keys are looked at for other clusters, and mostOthers how many of these are
	// found.
	pages      = 25
	pageSize   = 200
	mostOthers = 20
)

// timeout bounds a search.
const timeout = 8 * time.Second

// Found are the clusters that were found.
type Found struct {
	// Prefixes are those below which there is a node, in order.
	Prefixes []Prefix
	// Denied: the user may not look for them. More: not all keys were looked at.
	Denied, More bool
}

// Prefix is that of one cluster, and how many keys of nodes were seen there.
type Prefix struct {
	Prefix string
	Nodes  int
}

// String is the prefix, and how many nodes are there.
func (p Prefix) String() string {
	if p.Nodes == 1 {
		return p.Prefix + " (1 node)"
	}
	return fmt.Sprintf("%s (%d nodes)", p.Prefix, p.Nodes)
}

// Find looks for clusters under other prefixes than own: at a bounded number of keys, and not at those that lie in
// the long queues of a cluster. It blocks for eight seconds at most, and less if ctx ends.
func Find(ctx context.Context, client *clientv3.Client, own string) (out Found) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	from := "\x00"
	for range pages {
		resp, err := client.Get(ctx, from, clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize))
		if err != nil {
			out.Denied, out.More = refuses(err), !refuses(err)
			return out
		}
		for _, kv := range resp.Kvs {
			key := string(kv.Key)
			if key < from {
				continue
			}
			prefix, behind := clusterOf(key)
			if behind == "" { // one of its nodes, or no key of a cluster's
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
			case len(out.Prefixes) < mostOthers && isNode(ctx, client, key):
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

// refuses reports whether err is etcd's refusal of what a user may not do, or that there is no user.
func refuses(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty)
}

// isNode reports whether the value of a key is the record of a node: other programs have nodes, too.
func isNode(ctx context.Context, client *clientv3.Client, key string) bool {
	resp, err := client.Get(ctx, key)
	if err != nil || len(resp.Kvs) == 0 {
		return false
	}
	record, err := state.DecodeRecord(resp.Kvs[0].Value)
	return err == nil && record.InstanceID != ""
}

// queues are where a cluster may have very many keys, all before or behind those of its nodes.
var queues = []string{"/elections/", "/events/", "/leader/", "/shards/", "/work/"}

// clusterOf is the prefix of the cluster that has this key of a node, "" if it looks like no such key; behind is
// what comes after the keys among which it lies, if they are a cluster's and none is of a node.
func clusterOf(key string) (prefix, behind string) {
	if before, address, ok := strings.Cut(key, "/nodes/"); ok && address != "" && !strings.Contains(address, "/") {
		if _, err := state.NewKeys(before); err == nil {
			return before, ""
		}
	}
	for _, queue := range queues {
		if before, _, ok := strings.Cut(key, queue); ok && !strings.Contains(key, "/nodes/") {
			if _, err := state.NewKeys(before); err == nil {
				return before, before + strings.TrimSuffix(queue, "/") + "0"
			}
		}
	}
	return "", ""
}
