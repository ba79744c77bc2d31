package peer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nodepb "github.com/goverse/goverse/proto/goverse/node/v1"
)

// awaitReported waits until the last reported revision is this one.
func (r *recorder) awaitReported(t *testing.T, revision int64) []int64 {
	t.Helper()
	require.Eventually(t, func() bool {
		all := r.reported()
		return len(all) > 0 && all[len(all)-1] == revision
	}, time.Minute, time.Millisecond)
	return r.reported()
}

// The reports of a watcher arrive. They grow, and a newer one replaces an older one that has not been sent.
func TestRemovalsAreReported(t *testing.T) {
	t.Parallel()
	r := newRecorder(time.Hour)
	n, member := armedNode(t, r)
	w, err := member.OpenWatch(patient(t), n.AdvertiseAddress(), "", nil)
	require.NoError(t, err)
	w.ReportRemoval(7)
	r.awaitReported(t, 7)
	w.ReportRemoval(7)
	w.ReportRemoval(3)
	for revision := int64(8); revision <= 100; revision++ {
		w.ReportRemoval(revision)
	}
	all := r.awaitReported(t, 100)
	for i := 1; i < len(all); i++ {
		require.Greater(t, all[i], all[i-1])
	}
	w.Close(patient(t))
	w.ReportRemoval(200) // does not block
	require.NoError(t, n.Stop(patient(t)))
	require.Equal(t, all, r.reported())
}

// Reports count only from members, and once each.
func TestReportsOfStrangersAreIgnored(t *testing.T) {
	t.Parallel()
	r := newRecorder(time.Hour)
	n, member := armedNode(t, r)
	stranger := local(t)
	for _, watcher := range []*Node{stranger, member} {
		stream := watchByHand(t, n, watcher, &nodepb.WatchRequest{Heartbeats: true})
		for _, revision := range []int64{5, 5, 4, 0, -1, 6} {
			require.NoError(t, stream.Send(&nodepb.WatchRequest{Removal: revision}))
		}
		require.NoError(t, stream.CloseSend())
	}
	require.Equal(t, []int64{5, 6}, r.awaitReported(t, 6))
	require.NoError(t, n.Stop(patient(t)))
	require.Equal(t, []int64{5, 6}, r.reported())
}
