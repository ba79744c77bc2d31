package doctor

import (
	"context"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/reach"
	"github.com/goverse/goverse/internal/state"
)

const (
	// pages and pageSize bound how many keys are looked at for other clusters, and mostOthers how many of these are
	// found.
	pages      = 25
	pageSize   = 200
	mostOthers = 20
)

// others looks for clusters under other prefixes: at a bounded number of keys, and not at those that lie in
// the long queues of a cluster.
func (x *examiner) others(ctx context.Context, client *clientv3.Client) (out diagnosis.Others) {
	ctx, cancel := context.WithTimeout(ctx, 4*stepTimeout)
	defer cancel()
	from := "\x00"
	for range pages {
		resp, err := client.Get(ctx, from, clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize))
		if err != nil {
			out.Denied, out.More = reach.Refuses(err), !reach.Refuses(err)
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
			if prefix == "" || behind != "" || prefix == x.Keys.Prefix() {
				continue
			}
			i := slices.IndexFunc(out.Prefixes, func(p diagnosis.Prefix) bool { return p.Prefix == prefix })
			switch {
			case i >= 0:
				out.Prefixes[i].Nodes++
			case len(out.Prefixes) < mostOthers && isNode(ctx, client, key):
				out.Prefixes = append(out.Prefixes, diagnosis.Prefix{Prefix: prefix, Nodes: 1})
			}
		}
		if !resp.More {
			return out
		}
	}
	out.More = true
	return out
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
