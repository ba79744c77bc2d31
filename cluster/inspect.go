package cluster

import (
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/state"
)

func init() { inspect.NodeOf = func(c any) inspect.Node { return inspectNode{c.(*Cluster)} } }

// inspectNode implements inspect.Node.
type inspectNode struct{ c *Cluster }

// Snapshot implements inspect.Node.
func (i inspectNode) Snapshot() *state.Snapshot {
	if p := i.c.parts.Load(); p != nil {
		return p.mirror.Snapshot()
	}
	return nil
}

// Session implements inspect.Node.
func (i inspectNode) Session() *etcdsession.Session {
	if p := i.c.parts.Load(); p != nil {
		return p.keeper.Current()
	}
	return nil
}

// Election implements inspect.Node.
func (i inspectNode) Election() *leaderelection.LeaderElection {
	if p := i.c.parts.Load(); p != nil {
		return p.manager.Election()
	}
	return nil
}
