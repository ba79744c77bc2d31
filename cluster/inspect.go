package cluster

import (
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/state"
)

func init() { inspect.Open = func(c any) inspect.Node { return inside{c.(*Cluster)} } }

// inside implements inspect.Node.
type inside struct{ c *Cluster }

// Snapshot implements inspect.Node.
func (i inside) Snapshot() *state.Snapshot {
	if p := i.c.parts.Load(); p != nil {
		return p.mirror.Snapshot()
	}
	return nil
}

// Session implements inspect.Node.
func (i inside) Session() *etcdsession.Session {
	if p := i.c.parts.Load(); p != nil {
		return p.keeper.Current()
	}
	return nil
}

// Election implements inspect.Node.
func (i inside) Election() *leaderelection.LeaderElection {
	if p := i.c.parts.Load(); p != nil {
		return p.manager.Election()
	}
	return nil
}
