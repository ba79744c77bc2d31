package state

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRegisteredAreThoseThatDoNotLinger(t *testing.T) {
	a, b := &Member{Address: "a:1"}, &Member{Address: "b:1"}
	s := &Snapshot{Members: []*Member{a, b}}
	require.Equal(t, []*Member{a, b}, s.RegisteredMembers())
	s.Lingering = []LingeringState{{Member: a}}
	require.Equal(t, []*Member{b}, s.RegisteredMembers())
	require.Len(t, s.Members, 2, "it is left as it is")
	require.False(t, MembersChanged(s, s))
	require.True(t, MembersChanged(&Snapshot{Members: s.Members}, s), "one lingers since")
	require.True(t, MembersChanged(s, &Snapshot{Members: s.Members[1:], Lingering: s.Lingering}))
}
