//go:build unix

package integration

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/chaos"
	"github.com/goverse/goverse/internal/test/history"
)

// exemptTTL is so long that a deadline cannot explain the end of an overlap.
const exemptTTL = 5

var (
	removedAlive = flag.Bool("removed.alive", false, "remove a leader that lives")
	pausedRounds = flag.Int("paused.rounds", 0, "how often a leader is paused and its lease revoked")
)

// Crash detection does not exclude one case: the removal of a leader that lives. The overlaps, of leadership
// and of its shards, are detected and short, and no stale write is accepted. Without crash detection there is
// no overlap.
func TestLeaderThatIsRemovedAlive(t *testing.T) {
	// Runs alone: if etcd takes a second to answer, the grace period is five of them.
	if !*removedAlive {
		t.Skip("takes a quarter of a minute: give -removed.alive")
	}
	for name, off := range map[string]bool{"detection on": false, "detection off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cfg := chaosConfig(t)
			cfg.TTL, cfg.DetectionOff = exemptTTL, off
			v, took, err := chaos.RemoveAlive(ctx, cfg)
			require.NoError(t, err)
			t.Logf("removed after %v; %v", took.Round(time.Millisecond), v.Seen)
			require.Empty(t, v.Findings, "%v", v) // which include stale writes and overlaps that are not exempt
			if off {
				require.Empty(t, v.Exempt, "%v", v)
				return
			}
			require.Less(t, took, exemptTTL*time.Second/2, "long before its lease ends")
			leaders := 0
			for _, f := range v.Exempt {
				require.Equal(t, history.RemovedAlive, f.Mark.Name)
				require.Less(t, f.Length(), exemptTTL*time.Second/2, "by the grace period, not by the deadline")
				t.Logf("%s lasted %v", f.Text, f.Length())
				if f.Subject == history.Leadership {
					leaders++
				}
			}
			require.Equal(t, 1, leaders, "%v", v)
		})
	}
}

// etcd revokes a leader's lease early while the leader is paused for longer than the others wait for it. When
// it resumes, it claims nothing until etcd has confirmed its session, which etcd does not do.
func TestLeaderWhoseLeaseIsRevokedWhileItIsPaused(t *testing.T) {
	if *pausedRounds == 0 {
		t.Skip("takes ten seconds a round: give -paused.rounds")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cfg := chaosConfig(t)
	cfg.TTL = exemptTTL
	v, err := chaos.RevokePaused(ctx, cfg, *pausedRounds)
	require.NoError(t, err)
	t.Logf("%v", v.Seen)
	require.Empty(t, v.Findings, "%v", v)
	require.Empty(t, v.Exempt, "%v", v)
}
