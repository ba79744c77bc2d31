package cluster

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// A node does not start where the other members use a format that it does not read. It writes nothing, and its error
// holds both formats.
func TestNewerFormatKeepsANodeOut(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	newer := state.Record{InstanceID: "i", Goverse: "v9.0.0", Formats: format.Range{Oldest: 2, Newest: 2}}
	_, err := etcd.Client().Put(etcdtest.Context(t), "/goverse/nodes/b:1", newer.Encode())
	require.NoError(t, err)
	ctx := etcdtest.Context(t)
	err = newCluster(t, etcd, "127.0.0.1:0").Start(ctx)
	require.NoError(t, ctx.Err(), "it does not wait")
	require.ErrorIs(t, err, ErrFormat)
	refused, ok := errors.AsType[*FormatError](err)
	require.True(t, ok)
	require.Equal(t, FormatError{Subject: "the cluster under /goverse, by its member b:1,", Found: 2, Writer: "v9.0.0",
		Reads: format.Own(), Release: format.Release()}, *refused)
	require.Equal(t, []string{"/goverse/nodes/b:1"}, keysLeft(t, etcd))
}
