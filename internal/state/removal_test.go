package state

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The field of the mark is absent in other accusations, which are as before.
func TestAccusationRecordOfRemoval(t *testing.T) {
	plain := AccusationRecord{Incarnation: 7, Evidence: "x"}
	require.Equal(t, `{"format":1,"incarnation":7,"evidence":"x"}`, plain.Encode())
	mark := plain
	mark.Removed = true
	decoded, err := DecodeAccusation([]byte(mark.Encode()))
	require.NoError(t, err)
	require.Equal(t, mark, decoded)
}

// The deletion of a node and the mark of its removal are folded in either order, and the mark then stands in the
// snapshot as an accusation of an incarnation that is gone.
func TestMarkOfRemoval(t *testing.T) {
	k := testKeys(t)
	put := func(revision int64, key, value string) KV {
		return KV{Key: key, CreateRevision: revision, ModRevision: revision, Value: []byte(value)}
	}
	before := BuildSnapshot(k, 1, 4, []KV{put(2, k.Node("a:1"), "{}"), put(3, k.Node("b:1"), "{}"),
		put(4, k.Accusation("b:1", "y"), AccusationRecord{Incarnation: 3, Evidence: "refused"}.Encode())})
	b := before.Member("b:1")
	require.Nil(t, before.RemovalMarkOf(b), "an accusation that stands is no mark")
	deleted := Event{KV: KV{Key: k.Node("b:1"), ModRevision: 5}, Deleted: true}
	mark := Event{KV: put(5, k.Accusation("b:1", "x"),
		AccusationRecord{Incarnation: 3, Evidence: "silence", Removed: true}.Encode())}
	for name, events := range map[string][]Event{"deleted first": {deleted, mark}, "marked first": {mark, deleted}} {
		now := before.Apply(5, events)
		require.Nil(t, now.Member("b:1"), name)
		require.Equal(t, 3, now.Total, name)
		require.Empty(t, now.Foreign, name)
		require.Len(t, now.Accusations, 2, name)
		found := now.RemovalMarkOf(b)
		require.NotNil(t, found, name)
		require.Equal(t, "x", found.Accuser, name)
		require.Nil(t, now.RemovalMarkOf(before.Member("a:1")), name)
		require.Nil(t, now.RemovalMarkOf(&Member{Address: "b:1", Incarnation: 9}), "%s: of another incarnation", name)
		require.Nil(t, before.Apply(5, events[:1]).Apply(6, []Event{{KV: KV{Key: mark.Key, ModRevision: 6},
			Deleted: true}}).RemovalMarkOf(b), name)
	}
}

// Of two who accused a member, the one whose accusation was deleted together with it has removed it.
func TestRemovingAccusation(t *testing.T) {
	m := &Member{Address: "b:1", Incarnation: 3}
	accuses := func(accuser string, revision, incarnation int64) *Accusation {
		return &Accusation{Address: m.Address, Accuser: accuser, ModRevision: revision,
			AccusationRecord: AccusationRecord{Incarnation: incarnation}}
	}
	of := func(accusations ...*Accusation) *Snapshot { return &Snapshot{Accusations: accusations} }
	x, y, former := accuses("x", 5, 3), accuses("y", 6, 3), accuses("w", 4, 2)
	other, mark := accuses("x", 5, 3), accuses("z", 9, 3)
	other.Address, mark.Removed = "c:1", true
	for name, c := range map[string]struct {
		before, now *Snapshot
		want        *Accusation
	}{
		"none":                               {of(), of(), nil},
		"of a former incarnation":            {of(former), of(), nil},
		"of another member":                  {of(other), of(), nil},
		"the first one is gone":              {of(former, x, y), of(y), x},
		"the second one is gone":             {of(former, x, y), of(x), y},
		"the second one was written again":   {of(x, y), of(x, accuses("y", 7, 3)), y},
		"both are gone":                      {of(x, y), of(), x},
		"both stand":                         {of(x, y), of(x, y), x},
		"the removal is marked":              {of(x, y), of(x, mark), mark},
		"the mark, and no accusation before": {of(), of(mark), mark},
	} {
		require.Same(t, c.want, RemovingAccusation(c.before, c.now, m), name)
	}
}
