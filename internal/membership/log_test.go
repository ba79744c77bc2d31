package membership

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/testkit/logtest"
)

// A look may come too late to see that it was stopping; a new incarnation is another
// member; a record that changes is neither joining nor leaving.
func TestMemberLog(t *testing.T) {
	log := &logtest.Buffer{}
	l := newMemberLog("self:1", log.Logger())
	member := func(address string, incarnation int64, stopping bool) *state.Member {
		return &state.Member{Address: address, Incarnation: incarnation, Record: state.Record{Stopping: stopping}}
	}
	at := func(revision int64, members ...*state.Member) *state.Snapshot {
		return &state.Snapshot{Revision: revision, Members: members}
	}
	self := member("self:1", 1, false)
	drained := member("b:1", 3, false)
	drained.Draining = true
	one := at(10, member("a:1", 2, false), member("b:1", 3, false), self)
	marked := at(11, member("a:1", 2, true), drained, self)
	gone := at(12, member("b:1", 12, false), self)

	require.False(t, l.concerns(one, one))
	require.False(t, l.concerns(one, marked), "a record alone is not worth a look")
	require.True(t, l.concerns(marked, gone))
	l.report(one, gone)
	require.Contains(t, log.String(), "a node left: address=a:1 members=2")
	require.Contains(t, log.String(), "a node was lost: address=b:1 members=2")
	require.Contains(t, log.String(), "a node joined: address=b:1 members=2")
	require.Empty(t, l.stopping, "nothing is remembered of members that are gone")
	lines := strings.Count(log.String(), "\n")
	l.report(gone, at(13, gone.Members[0]))
	l.report(at(13, gone.Members[0]), gone)
	require.Equal(t, lines, strings.Count(log.String(), "\n"), "not about itself")
}
