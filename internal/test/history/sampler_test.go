package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSamplesOfShards checks that shards are sampled as soon as their number is known. A shard that a node
// serves is written regularly, one that it does not serve only when that changes.
func TestSamplesOfShards(t *testing.T) {
	count, epoch, p := 0, int64(0), &recordedOutput{}
	s := &sampler{write: NewRecorder(p, "test").writeLines, node: Node{Leads: func() (bool, int64) { return false, 0 },
		Shards: func() int { return count },
		Serves: func(shard int) (int64, bool) { return epoch, shard == 1 && epoch != 0 }}}
	samples := func(n int) {
		for range n {
			s.sampleNode()
		}
	}
	of := func(shard int) (out []Run) {
		for _, r := range p.readHistory(t).Runs {
			if r.Subject == Shard(shard) {
				out = append(out, r)
			}
		}
		return out
	}
	samples(1)
	require.Empty(t, of(0))
	count = 2
	samples(2)
	epoch = 7
	samples(3)
	// It continues until that is written; a crash then loses little.
	require.Eventually(t, func() bool { samples(1); return of(1)[len(of(1))-1].Count > 1 }, time.Minute,
		time.Millisecond)
	epoch = 8
	samples(2)
	epoch = 0
	samples(1)
	require.Equal(t, 1, of(0)[0].Count, "not written again")
	s.write(s.unwrittenLines()...)
	of0, of1 := of(0), of(1)
	require.Greater(t, of0[0].Count, 8)
	require.Equal(t, Window{of0[0].First.Before, of0[0].First.After}, of0[0].First)
	terms := termsOf(of1)
	require.Len(t, terms, 2)
	require.EqualValues(t, 7, terms[0].Token)
	require.EqualValues(t, 8, terms[1].Token)
	require.Equal(t, 2, terms[1].Count)
	at := Instant(0)
	for _, r := range of1 {
		for _, i := range []Instant{r.First.Before, r.First.After, r.Last.Before, r.Last.After} {
			if i != r.Last.Before || r.Count > 1 {
				require.LessOrEqual(t, at, i)
				at = i
			}
		}
	}
	require.Equal(t, "does not serve shard 1", of1[0].describeClaim())
	require.Equal(t, "serves shard 1 under epoch 7", of1[1].describeClaim())
}

// TestSamplesOfShardsAreOfOneSession checks that answers are dropped if the session changed meanwhile.
func TestSamplesOfShardsAreOfOneSession(t *testing.T) {
	sessions, p := []int64{8, 8, 8, 8, 8, 9, 9, 9, 9}, &recordedOutput{} // called once for leadership, twice for shards
	s := &sampler{write: NewRecorder(p, "test").writeLines, node: Node{Leads: func() (bool, int64) { return false, 0 },
		Shards: func() int { return 1 }, Serves: func(int) (int64, bool) { return 5, true },
		Session: func() (id int64) { id, sessions = sessions[0], sessions[1:]; return id }}}
	var seen []int64
	for range 3 {
		s.sampleNode()
		seen = append(seen, s.shards[0].current.Session, int64(s.shards[0].current.Count))
	}
	require.Equal(t, []int64{8, 1, 8, 1, 9, 1}, seen)
	require.Contains(t, p.text.String(), `"session":9`)
}

// TestSamplesOfClaimsAreOfOneSession checks that a claim is recorded with the session it was made on. A process
// that stands still between two questions may lose its session there.
func TestSamplesOfClaimsAreOfOneSession(t *testing.T) {
	for name, c := range map[string]struct {
		sessions []int64
		claimed  []bool
		id       int64
	}{
		"one session":             {[]int64{8, 8}, []bool{true}, 8},
		"lost before the answer":  {[]int64{8}, []bool{false}, 0},
		"lost after the answer":   {[]int64{8, 0}, []bool{true, false}, 0},
		"another one":             {[]int64{8, 9, 9}, []bool{true, true}, 9},
		"claimed without session": {[]int64{0, 0}, []bool{true}, 0},
	} {
		claims := c.claimed[len(c.claimed)-1]
		next := func() (id int64) { id, c.sessions = c.sessions[0], c.sessions[1:]; return id }
		one := Run{}.sampleClaim(next, func() (token int64, ok bool) {
			ok, c.claimed = c.claimed[0],
				c.claimed[1:]
			return 7, ok
		})
		require.Equal(t, claims, one.Leads, name)
		require.Equal(t, c.id, one.Session, name)
		require.Equal(t, claims, one.Token == 7, name)
		require.Empty(t, c.sessions, name)
		require.Empty(t, c.claimed, name)
	}
	changes := int64(0)
	one := Run{}.sampleClaim(func() int64 { changes++; return changes }, func() (token int64, ok bool) { return 7, true })
	require.True(t, one.Leads, "on a session that changes again and again: not hidden")
	require.Equal(t, changes, one.Session)
	sessions, leads, valid := []int64{8, 0, 8, 0}, []bool{true, false}, []bool{true, false}
	next := func() (id int64) { id, sessions = sessions[0], sessions[1:]; return id }
	s := &sampler{node: Node{Session: next, Leads: func() (is bool, token int64) {
		is, leads = leads[0], leads[1:]
		return is, 7
	}}}
	one = s.sampleLeadership()
	require.False(t, one.Leads)
	require.Zero(t, one.Token)
	claims := &sampledClaims{rec: NewRecorder(&recordedOutput{}, "test"), session: next, all: map[*sampledClaim]struct{}{}}
	held := claims.startClaim(Object("s", "x"), false, Now(), func() (token int64, ok bool) {
		ok, valid = valid[0], valid[1:]
		return 7, ok
	})
	require.True(t, held.over)
	require.False(t, held.track.current.Leads)
	require.Zero(t, held.track.current.Token)
}

// TestSamplesOfALeaderThatResumes checks that a leader counts as leading on if its session is confirmed between
// the question for leadership and the one for its state. If it denies twice that it leads, it has lowered its
// flag.
func TestSamplesOfALeaderThatResumes(t *testing.T) {
	const yes, no = true, false
	for name, c := range map[string]struct {
		leads []bool
		state State
		runs  int
	}{
		"resumed just now":   {[]bool{yes, no, yes, yes}, Leader, 1},
		"without a session":  {[]bool{yes, no, yes}, NoSession, 3},
		"lowered and raised": {[]bool{yes, no, no, yes}, Leader, 3},
	} {
		p, leads := &recordedOutput{}, c.leads
		s := &sampler{write: NewRecorder(p, "test").writeLines, node: Node{State: func() State { return c.state },
			Leads: func() (is bool, token int64) {
				if is, leads = leads[0], leads[1:]; is {
					return true, 7
				}
				return false, 0
			}}}
		for len(leads) > 0 {
			s.sampleNode()
		}
		s.write(s.unwrittenLines()...)
		var runs []bool
		for _, r := range p.readHistory(t).Runs {
			if r.Subject == Leadership && (len(runs) == 0 || runs[len(runs)-1] != r.Leads) {
				runs = append(runs, r.Leads)
			}
		}
		require.Len(t, runs, c.runs, name)
	}
}
