package leaderelection

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A process whose function in Lead ignores the end of its context reports that from Stop, and does not record that the
// others need not wait for it.
func TestStopWhileWorkGoesOn(t *testing.T) {
	client := etcdtest.Client(t)
	for id, goesOn := range map[string]bool{"obeys": false, "ignores": true} {
		ctx := etcdtest.Context(t)
		le, runner, err := New(Config{Client: client, EtcdPrefix: "/" + id, ID: id, WorkTimeout: 50 * time.Millisecond})
		require.NoError(t, err)
		require.NoError(t, runner.Start(ctx))
		inside, goOn, returned := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			returned <- le.Lead(ctx, func(ctx context.Context, _ Term) error {
				close(inside)
				<-ctx.Done()
				if goesOn {
					<-goOn
				}
				return ctx.Err()
			})
		}()
		<-inside
		mirror := runner.registration.Mirror
		mirror.ObserveHeader(&etcdserverpb.ResponseHeader{ClusterId: mirror.Snapshot().ClusterID,
			Revision: mirror.KnownRevision(), RaftTerm: 1 << 40}, 0) // its lease is older now
		err = runner.Stop(ctx)
		if goesOn {
			require.ErrorIs(t, err, lifecycle.ErrWorkRuns)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, !goesOn, runner.registration.Membership.Record().Left, id)
		close(goOn)
		require.ErrorIs(t, <-returned, ErrTermOver)
	}
}

// A stop also reports functions of a term before the last one.
func TestStopWhileWorkOfAFormerTermGoesOn(t *testing.T) {
	client, ctx := etcdtest.Client(t), etcdtest.Context(t)
	le, runner, err := New(Config{Client: client, EtcdPrefix: "/former", ID: "a", WorkTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, runner.Start(ctx))
	inside, goOn, returned := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		returned <- le.Lead(ctx, func(ctx context.Context, _ Term) error {
			close(inside)
			<-goOn
			return ctx.Err()
		})
	}()
	<-inside
	require.NoError(t, le.Resign(ctx))
	require.NoError(t, le.Lead(ctx, func(context.Context, Term) error { return nil }), "it leads again")
	require.ErrorIs(t, runner.Stop(ctx), ErrWorkRuns)
	close(goOn)
	require.ErrorIs(t, <-returned, ErrTermOver)
}

// A start that fails is undone, also if its context ended with the error of another stop.
func TestStartThatAnotherStopEnds(t *testing.T) {
	client := etcdtest.Client(t)
	cfg := Config{Client: client, EtcdPrefix: "/taken", ID: "same"}
	_, running, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, running.Start(etcdtest.Context(t)))
	_, waiting, err := New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancelCause(etcdtest.Context(t))
	started := make(chan error, 1)
	go func() { started <- waiting.Start(ctx) }()
	require.Eventually(t, func() bool { return waiting.registration.LastError() != nil }, time.Minute,
		time.Millisecond, "it waits for the other one")
	stop(ErrStopped)
	require.ErrorIs(t, <-started, ErrStopped)
	undone := true
	waiting.endOnce.Do(func() { undone = false })
	require.True(t, undone)
	require.NoError(t, waiting.Stop(etcdtest.Context(t)))
	require.NoError(t, running.Stop(etcdtest.Context(t)))
}
