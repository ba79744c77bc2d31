package candidacy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/txn"
)

const ttl = 10 * time.Second

var began = time.Unix(1000, 0)

func member() Candidacy {
	return New(Settings{Address: "a:1", Fallback: true}, true).OnSession(ownLease, ttl)
}

func at(d time.Duration, s *state.Snapshot) Input {
	return Input{Snapshot: s, Now: began.Add(d), Valid: true}
}

func queue(kvs ...state.KV) *state.Snapshot { return given{kvs: kvs}.build() }

// From the first decision to the first term.
func TestJoinAndLead(t *testing.T) {
	c, o := member().Decide(at(0, queue()))
	require.Equal(t, Orders{Request: Request{Action: JoinQueue}}, o)
	_, o = c.Decide(at(0, queue()))
	require.Equal(t, Orders{}, o, "one request at a time")
	c = c.CampaignBegan()
	c, hopeless := c.RequestFinished(Request{Action: JoinQueue}, Succeeded, began)
	require.False(t, hopeless)
	c = c.CampaignJoined(20)
	c, o = c.Decide(at(0, queue(queued(ownLease, 20), queued(otherLease, 19))))
	require.Equal(t, Orders{}, o, "second in the queue")
	require.EqualValues(t, 20, c.CandidateRevision(), "renewals look for the key")
	c, o = c.Decide(at(0, queue(queued(ownLease, 20))))
	require.Equal(t, Orders{BegunTerm: Term{Token: 20}}, o)
	require.Equal(t, o.BegunTerm, c.term)
}

func leads(t *testing.T) Candidacy {
	t.Helper()
	c, o := member().Decide(at(0, queue(queued(ownLease, 20), queued(otherLease, 21))))
	require.EqualValues(t, 20, o.BegunTerm.Token)
	return c
}

// The flag goes down first, then the work ends, then the key is deleted. The same key never leads again.
func TestResign(t *testing.T) {
	both := queue(queued(ownLease, 20), queued(otherLease, 21))
	c, ended := leads(t).Resign(began, both)
	require.Equal(t, Ending{Token: 20, Reason: ReasonResigned}, ended)
	require.Zero(t, c.term)
	require.False(t, c.TermKeyGone(20, both))

	seen := at(0, both)
	seen.WorkRunning = true
	c, o := c.Decide(seen)
	require.Equal(t, Orders{RecheckAfter: requeueDelay}, o, "work is running")
	seen.Now = began.Add(requeueDelay)
	_, o = c.Decide(seen)
	require.Equal(t, Orders{}, o, "until it is waited for no more")

	c, o = c.Decide(at(time.Millisecond, both))
	require.Equal(t, Request{Action: LeaveQueue, Revision: 20}, o.Request)
	require.Zero(t, c.CandidateRevision(), "it may be gone at any time")
	c, _ = c.RequestFinished(o.Request, Succeeded, began)
	require.True(t, c.TermKeyGone(20, both), "etcd said so")
	c, o = c.Decide(at(time.Millisecond, both))
	require.Equal(t, NoAction, o.Request.Action, "the snapshot is behind etcd's answer")

	alone := queue(queued(otherLease, 21))
	c, o = c.Decide(at(2*time.Millisecond, alone))
	require.Equal(t, Orders{RecheckAfter: requeueDelay - 2*time.Millisecond}, o, "let the next one take over first")
	_, o = c.Decide(at(requeueDelay, alone))
	require.Equal(t, JoinQueue, o.Request.Action)
}

func TestAskedToGiveWay(t *testing.T) {
	s := queue(queued(ownLease, 20), queued(otherLease, 21), request(state.RequestResign, 20, "", 0))
	c, o := leads(t).Decide(at(0, s))
	require.Equal(t, Ending{Token: 20, Reason: ReasonRequested, Request: s.Request}, o.EndedTerm)
	require.Equal(t, Request{Action: LeaveQueue, Revision: 20}, o.Request)
	require.Zero(t, c.term)

	seen := at(0, s)
	seen.WorkRunning = true
	_, o = leads(t).Decide(seen)
	require.EqualValues(t, 20, o.EndedTerm.Token)
	require.Equal(t, NoAction, o.Request.Action, "a function is still in the term that ended just now")
}

func TestNothingIsLeft(t *testing.T) {
	s := queue(queued(ownLease, 20))
	c, _ := leads(t).Withdraw(began)
	c, o := c.Decide(at(0, s))
	require.Equal(t, LeaveQueue, o.Request.Action)
	require.False(t, c.NothingLeft(s))
	c, _ = c.RequestFinished(o.Request, Succeeded, began)
	require.True(t, c.NothingLeft(s))
	require.True(t, c.NothingLeft(queue()))
}

// A key that is gone, or will be, ends only the term under it.
func TestKeysThatEnd(t *testing.T) {
	s := queue(queued(ownLease, 20), queued(otherLease, 21))
	for name, tc := range map[string]struct {
		event func(Candidacy) (Candidacy, Ending)
		want  Ending
	}{
		"a renewal missed it": {func(c Candidacy) (Candidacy, Ending) { return c.KeyMissed(20, began) },
			Ending{Token: 20, Reason: ReasonKeyLost}},
		"a renewal missed an older one": {func(c Candidacy) (Candidacy, Ending) { return c.KeyMissed(19, began) },
			Ending{}},
		"its campaign is cancelled": {func(c Candidacy) (Candidacy,
			Ending) {
			return c.CampaignCancelled(20, true, began)
		}, Ending{Token: 20, Reason: ReasonKeyLost}},
		"its campaign ends with the session": {func(c Candidacy) (Candidacy,
			Ending) {
			return c.CampaignCancelled(20, false, began)
		}, Ending{Token: 20, Reason: ReasonSessionLost}},
		"the session is lost": {func(c Candidacy) (Candidacy, Ending) {
			return c.SessionEnded(ReasonSessionLost,
				began)
		},
			Ending{Token: 20, Reason: ReasonSessionLost}},
		"a campaign without a key is cancelled": {func(c Candidacy) (Candidacy,
			Ending) {
			return c.CampaignCancelled(0, true, began)
		},
			Ending{}},
	} {
		c, ended := tc.event(leads(t))
		require.Equal(t, tc.want, ended, name)
		if ended.Token != 0 {
			_, o := c.Decide(at(0, s))
			require.Zero(t, o.BegunTerm, name)
		} else {
			require.EqualValues(t, 20, c.term.Token, name)
		}
	}

	// The key of a waiting campaign is gone: the campaign would wait, or win, in vain.
	c := member().CampaignBegan().CampaignJoined(90)
	c, o := c.Decide(at(0, queue()))
	require.Equal(t, JoinQueue, o.Request.Action)
	_, o = c.CampaignBegan().Decide(at(0, queue(queued(ownLease, 90))))
	require.Zero(t, o.BegunTerm, "if it shows up again, it is done with")
}

func TestWhatASessionLeavesToTheNext(t *testing.T) {
	c, _ := leads(t).SessionEnded(ReasonSessionLost, began)
	c = c.OnSession(otherLease, ttl)
	mine := queued(otherLease, 30)
	mine.Value = []byte("a:1")
	s := queue(mine)
	seen := at(time.Second, s)
	seen.WorkRunning = true
	c2, o := c.Decide(seen)
	require.Zero(t, o.BegunTerm, "work of the last term is running")
	require.EqualValues(t, 30, c2.CandidateRevision())
	_, o = c.Decide(at(time.Second, s))
	require.EqualValues(t, 30, o.BegunTerm.Token)
	require.True(t, member().CampaignEnded(began, Denied).OnSession(otherLease, ttl).ElectionFailed())
}

func TestCampaignsThatFail(t *testing.T) {
	c := member()
	for i := range failuresAllowed + 1 {
		require.False(t, c.ElectionFailed())
		c = c.CampaignBegan().CampaignEnded(began.Add(time.Duration(i)*2*time.Second), Failed)
	}
	require.True(t, c.ElectionFailed(), "five in a row, and a TTL has passed since the first")
	_, o := c.Decide(at(10*time.Second, queue()))
	require.Equal(t, Orders{RecheckAfter: 3 * time.Second}, o, "it goes on trying")
	require.False(t, member().CampaignEnded(began, Succeeded).ElectionFailed())
	require.True(t, member().CampaignEnded(began, Denied).ElectionFailed(), "at once")

	c, o = c.Decide(at(10*time.Second, queue(queued(ownLease, 20), queued(otherLease, 19))))
	require.True(t, o.Recovered)
	require.False(t, c.ElectionFailed())
}

func TestActing(t *testing.T) {
	c := member().CampaignEnded(began, Denied)
	empty := given{failed: "a:1"}
	c, o := c.Decide(at(0, empty.build()))
	require.Equal(t, Request{Action: CreateActing, Txn: txn.CreateActing(keysForTest(), ownLease, "a:1")}, o.Request)
	c, _ = c.RequestFinished(o.Request, Succeeded, began)
	_, o = c.Decide(at(retryDelay-1, empty.build()))
	require.Equal(t, Orders{RecheckAfter: 1}, o, "not in a loop")
	acting := given{failed: "a:1", kvs: []state.KV{acts(ownLease, 30)}}
	c, o = c.Decide(at(time.Second, acting.build()))
	require.Equal(t, Term{30, true}, o.BegunTerm)
	require.EqualValues(t, 30, c.ActingRevision())

	acting.kvs = append(acting.kvs, queued(otherLease, 31))
	c, o = c.Decide(at(time.Second, acting.build()))
	require.Equal(t, Ending{Token: 30, Reason: ReasonSuperseded}, o.EndedTerm)
	require.Equal(t, Request{Action: DeleteActing, Revision: 30, Txn: txn.DeleteActing(keysForTest(), 30)}, o.Request)
	require.Zero(t, c.ActingRevision())
}

func TestRequestsThatFail(t *testing.T) {
	c, o := leads(t).Withdraw(began)
	require.Equal(t, Ending{Token: 20, Reason: ReasonStopped}, o)
	s := queue(queued(ownLease, 20))
	for i, wait := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 3200} {
		c, _ = c.OnSession(ownLease, ttl).Decide(at(0, s)) // as if no time had to pass
		c.failedRequests = i
		require.Equal(t, i, c.FailedRequests())
		c, hopeless := c.RequestFinished(Request{Action: LeaveQueue, Revision: 20}, Failed, began)
		require.False(t, hopeless)
		_, o := c.Decide(at(0, s))
		require.InDelta(t, wait*time.Millisecond, o.RecheckAfter, float64(time.Millisecond))
		require.Equal(t, NoAction, o.Request.Action)
	}
	for kind, want := range map[Action]bool{LeaveQueue: true, DeleteActing: true, RepairKey: false, CreateActing: false} {
		_, hopeless := c.RequestFinished(Request{Action: kind}, Denied, began)
		require.Equal(t, want, hopeless, "a key that may not be deleted goes with its lease only")
	}
}

// A waiting member is woken by changes that may concern it, and by no others.
func TestConcerns(t *testing.T) {
	mine, first, last := queued(ownLease, 20), queued(otherLease, 19), queued(thirdLease, 21)
	before := queue(first, mine, last)
	c, _ := member().Decide(at(0, before))
	own := c.OwnCandidate(before)
	require.NotNil(t, own)
	after := func(changes ...state.Event) *state.Snapshot { return before.Apply(200, changes) }
	gone := func(kv state.KV) state.Event {
		return state.Event{KV: state.KV{Key: kv.Key, ModRevision: 200}, Deleted: true}
	}
	written := func(kv state.KV) state.Event { kv.ModRevision = 200; return state.Event{KV: kv} }
	var place state.QueuePlace
	require.False(t, ChangeMatters(own, &place, before, after(gone(last))))
	require.False(t, ChangeMatters(own, &place, before, after(written(queued(outsideLease, 200)))))
	require.True(t, ChangeMatters(own, &place, before, after(gone(first))), "it is the first now")
	require.True(t, ChangeMatters(own, &place, before, after(gone(mine))))
	require.True(t, ChangeMatters(own, &place, before, after(written(mine))), "altered")
	require.True(t, ChangeMatters(own, &place, before, after(written(request(state.RequestResign, 19, "", 0)))))
	require.True(t, ChangeMatters(own, &place, before, after(written(acts(otherLease, 200)))))
	require.True(t, ChangeMatters(nil, &place, before, after(gone(last))), "without a key, anything")
	first2 := after(gone(first))
	require.False(t, ChangeMatters(first2.Queue[0], &place, first2, first2.Apply(201, []state.Event{gone(last)})),
		"it was the first before")
}
