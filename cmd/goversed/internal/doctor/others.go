package doctor

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/cmd/goversed/internal/prefixes"
)

// findOthers searches for clusters under other prefixes.
func (x *examiner) findOthers(ctx context.Context, client *clientv3.Client) diagnosis.OtherClusters {
	found := prefixes.Find(ctx, client, x.Keys.Prefix())
	out := diagnosis.OtherClusters{Denied: found.Denied, More: found.More}
	for _, p := range found.Prefixes {
		out.Prefixes = append(out.Prefixes, diagnosis.ClusterPrefix{Prefix: p.Prefix, Nodes: p.Nodes})
	}
	return out
}
