package embedetcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// calm returns a cluster of three that does not change its leader only because the machine is busy.
func calm(t *testing.T) *Cluster {
	t.Helper()
	c, err := StartCluster(patient(t), 3, calmTiming(Config{}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// calmTiming is like TestTiming, for members that must not change their leader only because the machine is
// busy.
func calmTiming(c Config) Config {
	cfg := TestTiming(c)
	cfg.HeartbeatInterval, cfg.ElectionTimeout = 100*time.Millisecond, 2*time.Second
	return cfg
}

// soon returns a short context, for a request that should get no answer.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// awaitCutOff waits until the client's member has no leader.
func awaitCutOff(t *testing.T, alone *clientv3.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := alone.KeepAliveOnce(clientv3.WithRequireLeader(soon(t)), 1)
		return errors.Is(err, rpctypes.ErrNoLeader)
	}, 20*time.Second, 10*time.Millisecond)
}

// awaitPut writes through members that may still have to elect a leader. A request on its way to the old leader
// is lost, so each attempt has a short timeout.
func awaitPut(t *testing.T, client *clientv3.Client, key, val string) *clientv3.PutResponse {
	t.Helper()
	var resp *clientv3.PutResponse
	require.Eventually(t, func() bool {
		var err error
		resp, err = client.Put(soon(t), key, val)
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	return resp
}

func TestIsolatedMember(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]int{"etcd's leader": 0, "a follower": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := calm(t)
			i := (leaderOf(t, c) + offset) % 3
			alone := dial(t, c.Member(i).Endpoint())
			others := dial(t, c.Member((i+1)%3).Endpoint(), c.Member((i+2)%3).Endpoint())
			awaitPut(t, alone, "key", "before")
			lease, err := alone.Grant(patient(t), 60)
			require.NoError(t, err)
			_, err = alone.KeepAliveOnce(clientv3.WithRequireLeader(patient(t)), lease.ID)
			require.NoError(t, err)
			silent := alone.Watch(patient(t), "key", clientv3.WithCreatedNotify())
			require.True(t, (<-silent).Created)
			loud := alone.Watch(clientv3.WithRequireLeader(patient(t)), "key", clientv3.WithCreatedNotify())
			require.True(t, (<-loud).Created)

			c.IsolateMember(i)
			c.IsolateMember(i)
			awaitCutOff(t, alone)
			_, err = alone.Get(soon(t), "key")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			_, err = alone.Get(clientv3.WithRequireLeader(soon(t)), "key")
			require.Error(t, err)
			_, err = alone.KeepAliveOnce(soon(t), lease.ID)
			require.Error(t, err)
			_, err = alone.Put(soon(t), "key", "lost")
			require.ErrorIs(t, err, context.DeadlineExceeded)

			awaitPut(t, others, "key", "meanwhile")
			require.Equal(t, "meanwhile", value(t, others, "key"))
			_, err = others.KeepAliveOnce(patient(t), lease.ID)
			require.NoError(t, err)
			past, err := alone.Get(patient(t), "key", clientv3.WithSerializable())
			require.NoError(t, err)
			require.Equal(t, "before", string(past.Kvs[0].Value))
			ended := <-loud
			require.ErrorIs(t, ended.Err(), rpctypes.ErrNoLeader)
			require.Empty(t, silent)

			c.RejoinMember(i)
			c.RejoinMember(i)
			require.Equal(t, "meanwhile", value(t, alone, "key"))
			_, err = alone.KeepAliveOnce(patient(t), lease.ID)
			require.NoError(t, err)
			require.Equal(t, "meanwhile", string((<-silent).Events[0].Kv.Value), "late, but it comes")
		})
	}
}

func TestIsolationOutlivesRestarts(t *testing.T) {
	t.Parallel()
	c := calm(t)
	i := leaderOf(t, c)
	j := (i + 1) % 3
	awaitPut(t, c.Member(j).Client(), "key", "before")
	alone, others := dial(t, c.Endpoints()[i]), dial(t, c.Endpoints()[j])
	c.IsolateMember(i)
	awaitCutOff(t, alone)
	require.NoError(t, c.StopMember(j))
	require.NoError(t, c.RestartMember(patient(t), j), "two of three are a majority")
	awaitPut(t, others, "key", "meanwhile")
	_, err := alone.Get(soon(t), "key")
	require.Error(t, err)

	require.NoError(t, c.StopMember(i))
	require.ErrorIs(t, c.RestartMember(soon(t), i), context.DeadlineExceeded)
	require.Nil(t, c.Member(i))
	back := make(chan error)
	go func() { back <- c.RestartMember(patient(t), i) }()
	c.RejoinMember(i)
	require.NoError(t, <-back)
	require.Equal(t, "meanwhile", value(t, alone, "key"))
}
