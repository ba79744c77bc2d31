package state

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A request is found by its member's address. The last one counts, and an unreadable one requests nothing.
func TestDrain(t *testing.T) {
	keys := testKeys(t)
	put := func(address, value string, revision int64) Event {
		return Event{KV: KV{Key: keys.Drain(address), Value: []byte(value), CreateRevision: revision, ModRevision: revision}}
	}
	request := DrainRecord{Incarnation: 3}
	s := BuildSnapshot(keys, 1, 1, nil).Apply(4, []Event{put("b:1", request.Encode(), 3), put("a:1", request.Encode(), 4)})
	require.Nil(t, s.DrainOf("c:1"))
	require.Equal(t, &Drain{Address: "b:1", DrainRecord: request, ModRevision: 3}, s.DrainOf("b:1"))
	require.Equal(t, "a:1", s.Drains[0].Address)

	undone := DrainRecord{Incarnation: 3, Undo: true}
	require.Equal(t, undone, s.Apply(5, []Event{put("b:1", undone.Encode(), 5)}).DrainOf("b:1").DrainRecord)
	require.Nil(t, s.Apply(5, []Event{put("b:1", "{", 5)}).DrainOf("b:1"))
	gone := s.Apply(5, []Event{{KV: KV{Key: keys.Drain("b:1"), ModRevision: 5}, Deleted: true}})
	require.Nil(t, gone.DrainOf("b:1"))
	require.NotNil(t, gone.DrainOf("a:1"))
	require.NotNil(t, s.DrainOf("b:1"), "the older snapshot stays as it is")
}
