package operator

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// If too few members run, one line reports it, and nothing is changed.
func TestMembersWithoutAMajority(t *testing.T) {
	t.Parallel()
	etcd, err := embedetcd.StartCluster(testContext(t), 3, embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, etcd.Close()) }()
	o := openOperatorAt(t, etcd.Endpoints()[0])
	all, err := o.EtcdMembers(testContext(t))
	require.NoError(t, err)
	require.Len(t, all, 3)
	for _, m := range all {
		require.True(t, m.answered(), "%+v", m)
		require.Equal(t, m.ID == all[0].ID, m.Name == "goverse-0")
	}
	_, err = o.ReplaceEtcdMember(testContext(t), patience, "goverse-2", "", func(string) {})
	require.ErrorIs(t, err, ErrMemberLives)

	require.NoError(t, etcd.StopMember(1))
	require.NoError(t, etcd.StopMember(2))
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = o.EtcdMembers(ctx)
		return err != nil
	}, 20*time.Second, 10*time.Millisecond)
	require.ErrorIs(t, err, ErrNoMajority)
	require.NotContains(t, err.Error(), "\n")
}

// Repeating the command completes a replacement that was interrupted after any step.
func TestReplacementGoesOnAfterAnyStep(t *testing.T) {
	t.Parallel()
	etcd, err := embedetcd.StartCluster(testContext(t), 3, embedetcd.TestTiming(embedetcd.Config{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, etcd.Close()) }()
	o := openOperatorAt(t, etcd.Endpoints()[0])
	peer := ""
	for _, m := range mustList(o.EtcdMembers(testContext(t))) {
		if m.Name == "goverse-2" {
			peer = m.PeerURLs[0]
		}
	}
	require.NoError(t, etcd.StopMember(2))
	var said []string
	// Each call ends at its first output, as if it were killed there. Etcd needs time before it allows changes
	// of members.
	for began := time.Now(); time.Since(began) < time.Minute; {
		ctx, interrupt := context.WithCancel(etcdtest.Context(t))
		_, err := o.ReplaceEtcdMember(ctx, patience, "goverse-2", "", func(line string) {
			said = append(said, line)
			interrupt()
		})
		interrupt()
		require.Error(t, err)
		if line := said[len(said)-1]; line == "waiting for goversed node with --etcd-name goverse-2 at "+peer+
			", with an empty --data-dir" {
			break
		}
	}
	members := mustList(o.EtcdMembers(testContext(t)))
	require.Len(t, members, 3)
	require.Equal(t, EtcdNotStarted, members[0].State)
	require.Equal(t, []string{peer}, members[0].PeerURLs)
	require.Contains(t, said[0], "removed member goverse-2")
	_, err = o.ReplaceEtcdMember(testContext(t), time.Second, "goverse-2", "", func(string) {})
	require.ErrorIs(t, err, ErrNotReplaced)
	require.ErrorContains(t, err, "repeat goversed etcd replace goverse-2 to go on")
}

func mustList(all []EtcdMember, err error) []EtcdMember {
	if err != nil {
		panic(err)
	}
	return all
}
