package state

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state/format"
)

// membersThatRead returns a snapshot of members with these formats, registered in this order.
func membersThatRead(t *testing.T, formats ...format.Range) *Snapshot {
	keys := testKeys(t)
	var kvs []KV
	for i, f := range formats {
		revision := int64(10 + i)
		kvs = append(kvs, KV{Key: keys.Node(string(rune('a'+i)) + ":1"), CreateRevision: revision, ModRevision: revision,
			Value: []byte(Record{InstanceID: "i", Formats: f, Goverse: "v0.9.0"}.Encode())})
	}
	return BuildSnapshot(keys, 1, 20, kvs)
}

func TestClusterFormat(t *testing.T) {
	require.Equal(t, ClusterFormat{Format: format.Newest}, membersThatRead(t).Format())
	s := membersThatRead(t, format.Range{Oldest: 1, Newest: 3}, format.Range{}, format.Range{Oldest: 1, Newest: 1})
	require.Equal(t, ClusterFormat{1, s.Member("b:1")}, s.Format(), "one that publishes none reads the first")
	s = membersThatRead(t, format.Range{Oldest: 1, Newest: 3}, format.Range{Oldest: 2, Newest: 2})
	require.Equal(t, ClusterFormat{2, s.Member("b:1")}, s.Format())
	s = membersThatRead(t, format.Range{Oldest: 1, Newest: 3}, format.Range{Oldest: 5, Newest: 2})
	require.Equal(t, ClusterFormat{1, s.Member("b:1")}, s.Format(), "no range")
}

func TestCheckFormat(t *testing.T) {
	one, two := format.Range{Oldest: 1, Newest: 1}, format.Range{Oldest: 1, Newest: 2}
	require.NoError(t, membersThatRead(t).CheckFormat(one, "z:1"), "an empty cluster")
	require.NoError(t, membersThatRead(t, format.Range{}).CheckFormat(format.Range{}, "z:1"))
	require.NoError(t, membersThatRead(t, two, one).CheckFormat(one, "z:1"), "the oldest member decides")
	newer := membersThatRead(t, two, two)
	require.NoError(t, newer.CheckFormat(two, "z:1"))
	err := newer.CheckFormat(one, "z:1")
	require.ErrorIs(t, err, format.ErrFormat)
	require.ErrorContains(t, err, "the cluster under /goverse, by its member a:1, has format 2 (of Goverse v0.9.0)")
	require.ErrorContains(t, err, "use a release of Goverse that reads format 2")
	require.NoError(t, membersThatRead(t, two).CheckFormat(one, "a:1"), "its own predecessor does not count")
	err = membersThatRead(t, one).CheckFormat(format.Range{Oldest: 2, Newest: 3}, "z:1")
	require.ErrorContains(t, err, "first upgrade all nodes")
}

// Records that no release reads yet are kept out of the snapshot, and keep a process of this release out.
func TestCheckFormatOfRecords(t *testing.T) {
	keys := testKeys(t)
	for key, keepsOut := range map[string]bool{keys.ShardMap(): true, keys.Node("a:1"): true, keys.Drain("a:1"): false,
		keys.Request(): false} {
		s := BuildSnapshot(keys, 1, 20, []KV{{Key: key, CreateRevision: 1, ModRevision: 1,
			Value: []byte(`{"format":2,"version":2}`)}})
		err := s.CheckFormat(format.Own(), "z:1")
		require.Equal(t, keepsOut, err != nil, key)
		if keepsOut {
			require.ErrorContains(t, err, "the value of "+key+" has format 2")
		} else {
			require.Len(t, s.Foreign, 1)
			_, tooNew := errors.AsType[*format.Error](s.Foreign[0].Err)
			require.True(t, tooNew)
		}
	}
}

func TestRecordsStateTheirFormat(t *testing.T) {
	for _, value := range []string{Record{}.Encode(), RequestRecord{}.Encode(), AccusationRecord{}.Encode(),
		DrainRecord{}.Encode(), SilenceRecord{}.Encode(), SilenceAccusationRecord{}.Encode()} {
		require.Contains(t, value, `{"format":1,`)
	}
}
