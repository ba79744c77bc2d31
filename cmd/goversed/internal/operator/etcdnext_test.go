package operator

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state/format"
)

func TestNextStepOfAReplacement(t *testing.T) {
	t.Parallel()
	member := func(id, name, state string) EtcdMember {
		return EtcdMember{ID: id, Name: name, State: state, Learner: state == EtcdLearner || state == EtcdNotStarted,
			PeerURLs: []string{"http://" + name}}
	}
	at := func(m EtcdMember, peer string) EtcdMember { m.PeerURLs = []string{peer}; return m }
	a, b := member("1", "a", EtcdLeader), member("2", "b", EtcdFollower)
	dead, lives := member("3", "c", EtcdNoAnswer), member("3", "c", EtcdFollower)
	kept := &replacementRecord{Removed: "3", Peer: "http://c"}
	for name, c := range map[string]struct {
		peer    string
		kept    *replacementRecord
		members []EtcdMember
		do      replaceAction
		err     error
	}{
		"it is dead":                   {"", nil, []EtcdMember{a, b, dead}, doKeep, nil},
		"it lives":                     {"", nil, []EtcdMember{a, b, lives}, 0, ErrMemberLives},
		"there is none":                {"", nil, []EtcdMember{a, b}, 0, ErrNoSuchMember},
		"another is dead too":          {"", nil, []EtcdMember{a, member("2", "b", EtcdNoAnswer), dead}, 0, ErrTooFew},
		"it is the only one":           {"", nil, []EtcdMember{dead}, 0, ErrTooFew},
		"learners do not count":        {"", nil, []EtcdMember{a, member("2", "b", EtcdLearner), dead}, doKeep, nil},
		"kept, not removed":            {"", kept, []EtcdMember{a, b, dead}, doRemove, nil},
		"kept, and it lives after all": {"", kept, []EtcdMember{a, b, lives}, 0, ErrMemberLives},
		"kept, and another died":       {"", kept, []EtcdMember{a, member("2", "b", EtcdNoAnswer), dead}, 0, ErrTooFew},
		"removed, not added":           {"", kept, []EtcdMember{a, b}, doAdd, nil},
		"the same peer, said again":    {"http://c", kept, []EtcdMember{a, b}, doAdd, nil},
		"another peer":                 {"http://d", kept, []EtcdMember{a, b}, 0, ErrOtherReplacement},
		"added, not started": {"", kept, []EtcdMember{a, b, at(member("4", "", EtcdNotStarted), "http://c")},
			doAwaitStart, nil},
		"started":                       {"", kept, []EtcdMember{a, b, member("4", "c", EtcdLearner)}, doPromote, nil},
		"promoted":                      {"", kept, []EtcdMember{a, b, member("4", "c", EtcdFollower)}, doneReplacing, nil},
		"promoted, and leads":           {"", kept, []EtcdMember{a, b, member("4", "c", EtcdLeader)}, doneReplacing, nil},
		"promoted, and dead again":      {"", kept, []EtcdMember{a, b, member("4", "c", EtcdNoAnswer)}, doForget, nil},
		"to a machine with another URL": {"http://d", nil, []EtcdMember{a, b, dead}, doKeep, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step, err := nextReplace("c", c.peer, c.kept, c.members, false)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				require.NotContains(t, err.Error(), "\n")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.do, step.do)
		})
	}
	_, err := nextReplace("c", "http://a", nil, []EtcdMember{a, b, dead}, true)
	require.ErrorContains(t, err, "--peer http://a is that of a")
	step, err := nextReplace("c", "http://d", nil, []EtcdMember{a, b, dead}, true)
	require.NoError(t, err)
	require.Equal(t, replacementRecord{Removed: "3", Peer: "http://d"}, step.keep)

	// The new member served, but lost its data before it had its vote.
	gone := member("4", "c", EtcdNoAnswer)
	gone.Learner = true
	kept.rest = format.Rest{"why": json.RawMessage(`"disk"`)}
	step, err = nextReplace("c", "", kept, []EtcdMember{a, b, gone}, true)
	require.NoError(t, err)
	require.Equal(t, replaceStep{do: doKeep, keep: replacementRecord{Removed: "4", Peer: "http://c", rest: kept.rest}},
		step, "it keeps the fields that this release does not know")
	step, err = nextReplace("c", "", kept, []EtcdMember{a, b, gone}, false)
	require.NoError(t, err)
	require.Equal(t, doAwaitStart, step.do, "it may be starting again")
}
