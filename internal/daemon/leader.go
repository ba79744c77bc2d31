package daemon

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/cluster/election"
)

// leaderlessFor is how long nobody must lead to be worth a line. Between two leaders
// there is always a moment without one.
const leaderlessFor = time.Second

// followLeader logs who leads, until leaders is closed. What this node itself does is
// logged where it happens.
func followLeader(leaders <-chan election.Leader, self string, log hclog.Logger) {
	lasting := time.NewTimer(leaderlessFor)
	defer lasting.Stop()
	lasting.Stop()
	for {
		select {
		case l, ok := <-leaders:
			if !ok {
				return
			}
			lasting.Stop()
			switch l.Address {
			case self:
			case "":
				lasting.Reset(leaderlessFor)
			default:
				log.Info("the leader is another node", "leader", l.Address, "token", l.Token, "mode", string(l.Mode))
			}
		case <-lasting.C:
			log.Info("this node knows of no leader")
		}
	}
}
