package candidacy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/election"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

const ttl = 10 * time.Second

var began = time.Unix(1000, 0)

func member() Candidacy {
	return New(Settings{Address: "a:1", Fallback: true, WorkTimeout: 5 * time.Second}, true).On(ownLease, ttl)
}

func at(d time.Duration, s *state.Snapshot) Seen {
	return Seen{Snapshot: s, Now: began.Add(d), Valid: true}
}

func queue(kvs ...state.KV) *state.Snapshot { return given{kvs: kvs}.build() }

// From the first look to the first term.
func TestJoinAndLead(t *testing.T) {
	c, o := member().Look(at(0, queue()))
	require.Equal(t, Orders{Do: Request{Kind: Join}}, o)
	_, o = c.Look(at(0, queue()))
	require.Equal(t, Orders{}, o, "one request at a time")
	c = c.CampaignBegan()
	c, hopeless := c.Finished(Request{Kind: Join}, Worked, began)
	require.False(t, hopeless)
	c = c.Joined(20)
	c, o = c.Look(at(0, queue(queued(ownLease, 20), queued(otherLease, 19))))
	require.Equal(t, Orders{}, o, "second in the queue")
	require.EqualValues(t, 20, c.Queued(), "renewals look for the key")
	c, o = c.Look(at(0, queue(queued(ownLease, 20))))
	require.Equal(t, Orders{Began: Term{20, election.ModeElection}}, o)
	require.Equal(t, o.Began, c.Term())
}

func leads(t *testing.T) Candidacy {
	t.Helper()
	c, o := member().Look(at(0, queue(queued(ownLease, 20), queued(otherLease, 21))))
	require.EqualValues(t, 20, o.Began.Token)
	return c
}

// The flag goes down first, then the work ends, then the key is deleted. The same key never leads again.
func TestResign(t *testing.T) {
	both := queue(queued(ownLease, 20), queued(otherLease, 21))
	c, ended := leads(t).Resign(began, both)
	require.Equal(t, Ending{Token: 20, Reason: election.ReasonResigned}, ended)
	require.Zero(t, c.Term())
	require.False(t, c.Over(20, both))

	seen := at(0, both)
	seen.Working = true
	c, o := c.Look(seen)
	require.Equal(t, Orders{Again: requeueDelay}, o, "work is running")
	seen.Now = began.Add(requeueDelay)
	_, o = c.Look(seen)
	require.Equal(t, Orders{Again: 5*time.Second - requeueDelay}, o, "until it is given up on")

	c, o = c.Look(at(time.Millisecond, both))
	require.Equal(t, Request{Kind: Leave, Revision: 20}, o.Do)
	require.Zero(t, c.Queued(), "it may be gone at any time")
	c, _ = c.Finished(o.Do, Worked, began)
	require.True(t, c.Over(20, both), "etcd said so")
	c, o = c.Look(at(time.Millisecond, both))
	require.Equal(t, None, o.Do.Kind, "the snapshot is behind etcd's answer")

	alone := queue(queued(otherLease, 21))
	c, o = c.Look(at(2*time.Millisecond, alone))
	require.Equal(t, Orders{Again: requeueDelay - 2*time.Millisecond}, o, "let the next one take over first")
	_, o = c.Look(at(requeueDelay, alone))
	require.Equal(t, Join, o.Do.Kind)
}

func TestAskedToGiveWay(t *testing.T) {
	s := queue(queued(ownLease, 20), queued(otherLease, 21), request(state.RequestResign, 20, "", 0))
	c, o := leads(t).Look(at(0, s))
	require.Equal(t, Ending{Token: 20, Reason: election.ReasonRequested, Request: s.Request}, o.Ended)
	require.Equal(t, Request{Kind: Leave, Revision: 20}, o.Do)
	require.Zero(t, c.Term())

	seen := at(0, s)
	seen.Inside = true
	_, o = leads(t).Look(seen)
	require.EqualValues(t, 20, o.Ended.Token)
	require.Equal(t, None, o.Do.Kind, "a function is still in the term that ended just now")
}

func TestWorkIsNotWaitedForForever(t *testing.T) {
	s := queue(queued(ownLease, 20))
	c, _ := leads(t).Withdraw(began)
	seen := at(5*time.Second-1, s)
	seen.Working = true
	c, o := c.Look(seen)
	require.Equal(t, Orders{Again: 1}, o)
	seen.Now = seen.Now.Add(1)
	c, o = c.Look(seen)
	require.True(t, o.GaveUp)
	require.Equal(t, Leave, o.Do.Kind)
	require.False(t, c.Clear(s))
	c, _ = c.Finished(o.Do, Worked, seen.Now)
	require.True(t, c.Clear(s))
	require.True(t, c.Clear(queue()))
}

// A key that is gone, or will be, ends only the term under it.
func TestKeysThatEnd(t *testing.T) {
	s := queue(queued(ownLease, 20), queued(otherLease, 21))
	for name, tc := range map[string]struct {
		event func(Candidacy) (Candidacy, Ending)
		want  Ending
	}{
		"a renewal missed it": {func(c Candidacy) (Candidacy, Ending) { return c.Missed(20, began) },
			Ending{Token: 20, Reason: election.ReasonKeyLost}},
		"a renewal missed an older one": {func(c Candidacy) (Candidacy, Ending) { return c.Missed(19, began) },
			Ending{}},
		"its campaign is cancelled": {func(c Candidacy) (Candidacy,
			Ending) {
			return c.Leaving(20, true, began)
		}, Ending{Token: 20, Reason: election.ReasonKeyLost}},
		"its campaign ends with the session": {func(c Candidacy) (Candidacy,
			Ending) {
			return c.Leaving(20, false, began)
		}, Ending{Token: 20, Reason: election.ReasonSessionLost}},
		"the session is lost": {func(c Candidacy) (Candidacy, Ending) { return c.Close(election.ReasonSessionLost, began) },
			Ending{Token: 20, Reason: election.ReasonSessionLost}},
		"a campaign without a key is cancelled": {func(c Candidacy) (Candidacy, Ending) { return c.Leaving(0, true, began) },
			Ending{}},
	} {
		c, ended := tc.event(leads(t))
		require.Equal(t, tc.want, ended, name)
		if ended.Token != 0 {
			_, o := c.Look(at(0, s))
			require.Zero(t, o.Began, name)
		} else {
			require.EqualValues(t, 20, c.Term().Token, name)
		}
	}

	// The key of a waiting campaign is gone: the campaign would wait, or win, in vain.
	c := member().CampaignBegan().Joined(90)
	c, o := c.Look(at(0, queue()))
	require.Equal(t, Join, o.Do.Kind)
	_, o = c.CampaignBegan().Look(at(0, queue(queued(ownLease, 90))))
	require.Zero(t, o.Began, "if it shows up again, it is done with")
}

func TestWhatASessionLeavesToTheNext(t *testing.T) {
	c, _ := leads(t).Close(election.ReasonSessionLost, began)
	c = c.On(otherLease, ttl)
	mine := queued(otherLease, 30)
	mine.Value = []byte("a:1")
	s := queue(mine)
	seen := at(time.Second, s)
	seen.Working = true
	c2, o := c.Look(seen)
	require.Zero(t, o.Began, "work of the last term is running")
	require.Equal(t, 4*time.Second, o.Again)
	require.EqualValues(t, 30, c2.Queued())
	_, o = c.Look(at(time.Second, s))
	require.EqualValues(t, 30, o.Began.Token)
	require.True(t, member().CampaignEnded(began, Denied).On(otherLease, ttl).Failed())
}

func TestCampaignsThatFail(t *testing.T) {
	c := member()
	for i := range failuresAllowed + 1 {
		require.False(t, c.Failed())
		c = c.CampaignBegan().CampaignEnded(began.Add(time.Duration(i)*2*time.Second), Failed)
	}
	require.True(t, c.Failed(), "five in a row, and a TTL has passed since the first")
	_, o := c.Look(at(10*time.Second, queue()))
	require.Equal(t, Orders{Again: 3 * time.Second}, o, "it goes on trying")
	require.False(t, member().CampaignEnded(began, Worked).Failed())
	require.True(t, member().CampaignEnded(began, Denied).Failed(), "at once")

	c, o = c.Look(at(10*time.Second, queue(queued(ownLease, 20), queued(otherLease, 19))))
	require.True(t, o.Recovered)
	require.False(t, c.Failed())
}

func TestActing(t *testing.T) {
	c := member().CampaignEnded(began, Denied)
	empty := given{failed: "a:1"}
	c, o := c.Look(at(0, empty.build()))
	require.Equal(t, Request{Kind: CreateActing, Change: txn.CreateActing(keysForTest(), ownLease, "a:1")}, o.Do)
	c, _ = c.Finished(o.Do, Worked, began)
	_, o = c.Look(at(retryDelay-1, empty.build()))
	require.Equal(t, Orders{Again: 1}, o, "not in a loop")
	acting := given{failed: "a:1", kvs: []state.KV{acts(ownLease, 30)}}
	c, o = c.Look(at(time.Second, acting.build()))
	require.Equal(t, Term{30, election.ModeFallback}, o.Began)
	require.EqualValues(t, 30, c.Acts())

	acting.kvs = append(acting.kvs, queued(otherLease, 31))
	c, o = c.Look(at(time.Second, acting.build()))
	require.Equal(t, Ending{Token: 30, Reason: election.ReasonSuperseded}, o.Ended)
	require.Equal(t, Request{Kind: DeleteActing, Revision: 30, Change: txn.DeleteActing(keysForTest(), 30)}, o.Do)
	require.Zero(t, c.Acts())
}

func TestRequestsThatFail(t *testing.T) {
	c, o := leads(t).Withdraw(began)
	require.Equal(t, Ending{Token: 20, Reason: election.ReasonStopped}, o)
	s := queue(queued(ownLease, 20))
	for i, wait := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 3200} {
		c, _ = c.On(ownLease, ttl).Look(at(0, s)) // as if no time had to pass
		c.refused = i
		require.Equal(t, i, c.Refused())
		c, hopeless := c.Finished(Request{Kind: Leave, Revision: 20}, Failed, began)
		require.False(t, hopeless)
		_, o := c.Look(at(0, s))
		require.InDelta(t, wait*time.Millisecond, o.Again, float64(time.Millisecond))
		require.Equal(t, None, o.Do.Kind)
	}
	for kind, want := range map[Kind]bool{Leave: true, DeleteActing: true, Rewrite: false, CreateActing: false} {
		_, hopeless := c.Finished(Request{Kind: kind}, Denied, began)
		require.Equal(t, want, hopeless, "a key that may not be deleted goes with its lease only")
	}
}

// A waiting member is woken by changes that may concern it, and by no others.
func TestConcerns(t *testing.T) {
	mine, first, last := queued(ownLease, 20), queued(otherLease, 19), queued(thirdLease, 21)
	before := queue(first, mine, last)
	c, _ := member().Look(at(0, before))
	own := c.Settled(before)
	require.NotNil(t, own)
	after := func(changes ...state.Event) *state.Snapshot { return before.Apply(200, changes) }
	gone := func(kv state.KV) state.Event {
		return state.Event{KV: state.KV{Key: kv.Key, ModRevision: 200}, Deleted: true}
	}
	written := func(kv state.KV) state.Event { kv.ModRevision = 200; return state.Event{KV: kv} }
	var place state.Place
	require.False(t, Concerns(own, &place, before, after(gone(last))))
	require.False(t, Concerns(own, &place, before, after(written(queued(outsideLease, 200)))))
	require.True(t, Concerns(own, &place, before, after(gone(first))), "it is the first now")
	require.True(t, Concerns(own, &place, before, after(gone(mine))))
	require.True(t, Concerns(own, &place, before, after(written(mine))), "altered")
	require.True(t, Concerns(own, &place, before, after(written(request(state.RequestResign, 19, "", 0)))))
	require.True(t, Concerns(own, &place, before, after(written(acts(otherLease, 200)))))
	require.True(t, Concerns(nil, &place, before, after(gone(last))), "without a key, anything")
	first2 := after(gone(first))
	require.False(t, Concerns(first2.Queue[0], &place, first2, first2.Apply(201, []state.Event{gone(last)})),
		"it was the first before")
}
