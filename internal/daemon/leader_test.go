package daemon

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/election"
)

func TestOnlyALastingLackOfALeaderIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		leaders := make(chan election.Leader)
		done := make(chan struct{})
		go func() {
			defer close(done)
			followLeader(leaders, "me:1", hclog.New(&hclog.LoggerOptions{Output: &out, DisableTime: true}))
		}()
		leads := func(address string, during time.Duration) {
			leaders <- election.Leader{Address: address}
			<-time.After(during) // of the bubble: no time passes
			synctest.Wait()
		}
		none := func() int { return strings.Count(out.String(), "this node knows of no leader") }

		leads("a:1", time.Minute)
		leads("", leaderlessFor-1)
		leads("b:1", time.Minute)
		leads("", leaderlessFor-1)
		leads("me:1", time.Minute)
		require.Zero(t, none(), out.String())
		require.Equal(t, 2, strings.Count(out.String(), "the leader is another node"))
		leads("", leaderlessFor)
		require.Equal(t, 1, none())
		leads("a:1", 0)
		require.Equal(t, 3, strings.Count(out.String(), "the leader is another node"))
		close(leaders)
		<-done
	})
}
