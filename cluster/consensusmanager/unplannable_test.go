package consensusmanager

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/sharding"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/logtest"
)

// A map that cannot be read is reported once. The remedy is never to delete one in a newer format.
func TestUnreadableMapsAreReported(t *testing.T) {
	t.Parallel()
	keys, err := state.NewKeys("/p")
	require.NoError(t, err)
	log := &logtest.Buffer{}
	p := newPlanner(Config{Process: etcd.Process{Keys: keys, Logger: log.Logger()}}, nil)
	for revision, value := range []string{"{", `{"version":2}`} {
		_, err := sharding.DecodeMap([]byte(value))
		p.logUnplannable(int64(revision), err)
		p.logUnplannable(int64(revision), err)
	}
	require.Equal(t, 2, log.Count("the shard map cannot be read or planned over, so no shard moves"))
	require.Contains(t, log.Line("unexpected end"), "delete /p/shards/map")
	newer := log.Line("has format 2")
	require.Contains(t, newer, "use a release of Goverse that reads format 2, and delete nothing")
	require.NotContains(t, newer, "/p/shards/map")
}
