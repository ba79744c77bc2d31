package state

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSilences(t *testing.T) {
	k := testKeys(t)
	said := func(revision int64, address, watcher string, incarnation, ms int64) Event {
		return Event{KV: KV{Key: k.Silence(address, watcher), CreateRevision: revision, ModRevision: revision,
			Value: []byte(SilenceRecord{Incarnation: incarnation, SilentMS: ms}.Encode())}}
	}
	s := BuildSnapshot(k, 1, 3, []KV{
		{Key: k.Node("a:1"), CreateRevision: 1, ModRevision: 1, Value: []byte("{}")},
		{Key: k.Node("b:1"), CreateRevision: 2, ModRevision: 2, Value: []byte("{}")},
	})
	b := s.Member("b:1")
	require.Empty(t, s.SilencesOf(b))
	require.Zero(t, s.CountSilentMembers())
	now := s.Apply(7, []Event{said(4, "b:1", "y", 2, 2000), said(5, "b:1", "x", 2, 3000), said(6, "b:1", "z", 1, 9000),
		said(7, "c:1", "x", 9, 2000)})
	of := now.SilencesOf(b)
	require.Len(t, of, 2, "those about this incarnation")
	require.Equal(t, []string{"x", "y"}, []string{of[0].Watcher, of[1].Watcher})
	require.Equal(t, 3*time.Second, of[0].SilentFor())
	require.Equal(t, 1, now.CountSilentMembers(), "c is no member")
	require.Empty(t, now.Foreign)
	now = now.Apply(8, []Event{{KV: KV{Key: k.Silence("b:1", "x"), ModRevision: 8}, Deleted: true}})
	require.Len(t, now.SilencesOf(b), 1)
	require.Len(t, s.Silences, 0, "what was read stays as it is")
	require.Zero(t, (&Silence{SilenceRecord: SilenceRecord{SilentMS: -5}}).SilentFor())
	require.Equal(t, 24*time.Hour, (&Silence{SilenceRecord: SilenceRecord{SilentMS: 1 << 62}}).SilentFor())
}
