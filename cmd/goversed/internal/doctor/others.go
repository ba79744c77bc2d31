package doctor

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/cmd/goversed/internal/prefixes"
)

// others searches for clusters under other prefixes.
func (x *examiner) others(ctx context.Context, client *clientv3.Client) diagnosis.Others {
	found := prefixes.Find(ctx, client, x.Keys.Prefix())
	out := diagnosis.Others{Denied: found.Denied, More: found.More}
	for _, p := range found.Prefixes {
		out.Prefixes = append(out.Prefixes, diagnosis.Prefix{Prefix: p.Prefix, Nodes: p.Nodes})
	}
	return out
}
