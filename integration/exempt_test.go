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

// exemptTTL is so long that the deadline is no explanation for what ends an overlap.
const exemptTTL = 5

var pausedRounds = flag.Int("paused.rounds", 3, "how often a leader is paused and its lease revoked")

// The case that crash detection does not exclude: a leader that lives is removed. The
// overlaps, of leadership and of its shards, are found, short, and no stale write is
// accepted; without crash detection there is none.
func TestLeaderThatIsRemovedAlive(t *testing.T) {
	// Not beside others: where etcd takes a second to answer, the grace period is five of them.
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
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
			require.Empty(t, v.Findings, "%v", v) // among them: no stale write, no overlap that is not exempt
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

// A leader whose lease etcd revokes early while its process stands still, for longer than the others wait for
// it: it claims nothing when it goes on, until etcd has confirmed that it may, which etcd does not.
func TestLeaderWhoseLeaseIsRevokedWhileItIsPaused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
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
