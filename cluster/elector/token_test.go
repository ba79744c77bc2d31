package elector_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// etcd invalidates the tokens of a user when the password is set, and refuses new watches on a stream that was
// opened with one. An elector that then begins to watch is notified of a change all the same, while the watch
// of another elector with the same client goes on.
func TestWatchWhenTheTokenIsForgotten(t *testing.T) {
	t.Parallel()
	s := newTestBed(t)
	_, client, forget := etcdtest.EnableUser(t, s.server)
	watches := etcdtest.ObserveWatches(client)

	running, stop := context.WithCancel(s.ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	// watch makes an elector watch its record. It returns the elector, its lease, its signals, and the result.
	watch := func(name string) (*elector.Etcd, elector.Lease, <-chan struct{}, <-chan error) {
		store := s.store(client, name)
		lease, err := store.CreateLease(s.ctx, elector.Lease{HolderIdentity: "a"})
		require.NoError(t, err)
		changed, ended := make(chan struct{}, 10), make(chan error, 1)
		watching.Go(func() { ended <- store.Watch(running, func() { changed <- struct{}{} }) })
		<-watches.Answered
		<-changed // it has begun
		return store, lease, changed, ended
	}
	_, _, _, before := watch("before")
	forget()
	store, lease, changed, after := watch("after")
	_, err := store.UpdateLease(s.ctx, lease)
	require.NoError(t, err)
	<-changed
	require.Empty(t, before, "it goes on")
	require.Empty(t, after)
}
