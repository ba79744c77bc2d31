package candidate

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/leasequeue/entrystate"
	"github.com/goverse/goverse/internal/leasequeue/order"
	"github.com/goverse/goverse/internal/lifecycle"
)

var (
	errNo   = errors.New("etcd says no")
	errLost = &session.LostError{Reason: session.ReasonExpired}
)

// queue returns a queue of these entries, read at revision 20.
func queue(entries ...order.Entry) order.Queue { return order.Queue{}.ApplyRead(20, entries) }

var (
	own    = order.Entry{Key: "own", CreateRevision: 5}
	alone  = queue(own)
	first  = OwnEntry{Key: "own", CreateRevision: 5, Decided: true}
	queued = OwnEntry{Key: "own", CreateRevision: 5}
)

func TestLook(t *testing.T) {
	leads, placed := Candidate{WantsToLead: true, Phase: Leading}, Candidate{WantsToLead: true, Phase: Queued}
	ends := Candidate{WantsToLead: true, Phase: AwaitingWork}
	for name, c := range map[string]struct {
		is   Candidate
		view View
		want Candidate
		o    Orders
	}{
		"follows only": {},
		"queues": {is: Candidate{WantsToLead: true, Priority: 3},
			want: Candidate{WantsToLead: true, Phase: Queued, Priority: 3, QueuedPriority: 3}, o: Orders{EnterQueue: true}},
		"not after it left": {is: Candidate{WantsToLead: true, WithdrawReason: errNo},
			want: Candidate{WantsToLead: true, WithdrawReason: errNo}},
		"nor while denied": {is: Candidate{WantsToLead: true, Denied: true},
			want: Candidate{WantsToLead: true, Denied: true}},
		"waits for its place": {is: placed, view: View{Entry: queued, Queue: alone}, want: placed},
		"begins":              {is: placed, view: View{Entry: first, Queue: alone}, want: leads, o: Orders{BeginTerm: true}},
		"goes on":             {is: leads, view: View{Entry: first, Queue: alone}, want: leads},
		"over before it began": {is: placed, view: View{Entry: OwnEntry{CreateRevision: 5, Decided: true, EndCause: errLost}},
			want: placed, o: Orders{ReleaseEntry: true, EnterQueue: true}},
		"the session is lost while it waits": {is: placed, view: View{Entry: OwnEntry{SessionLost: true}},
			want: placed, o: Orders{DropEntry: true, EnterQueue: true}},
		"its place is lost": {is: placed, view: View{Entry: OwnEntry{Decided: true, Err: entrystate.ErrEntryLost}},
			want: placed, o: Orders{DropEntry: true, EnterQueue: true}},
		"refused": {is: placed, view: View{Entry: OwnEntry{Decided: true, Err: errNo}},
			want: Candidate{WantsToLead: true, Denied: true}, o: Orders{DropEntry: true, Refused: errNo}},
		"refused for good": {is: placed, view: View{Entry: OwnEntry{Decided: true, Err: errNo, Final: true}},
			want: Candidate{WantsToLead: true, WithdrawReason: errNo}, o: Orders{DropEntry: true, Refused: errNo, Final: true}},
		"resigns": {is: leads.Resign(), view: View{Entry: first, Queue: alone},
			want: placed, o: Orders{EndReason: ErrResigned, ReleaseEntry: true, EnterQueue: true}},
		"resigns, and waits for its work": {is: leads.Resign(), view: View{Entry: first, Queue: alone, WorkRunning: true},
			want: Candidate{WantsToLead: true, Phase: AwaitingWork, ReleaseReason: ErrResigned},
			o:    Orders{EndReason: ErrResigned}},
		"which has returned": {is: ends.Resign(), view: View{Entry: first, Queue: alone},
			want: placed, o: Orders{ReleaseEntry: true, EnterQueue: true}},
		"and another one may lead meanwhile": {is: ends.Resign(),
			view: View{Entry: first, Queue: queue(), WorkRunning: true}, want: ends.Resign(),
			o: Orders{CutOffReason: leaderelection.ErrKeyLost}},
		"withdraws": {is: leads.Withdraw(leaderelection.ErrWithdrawn), view: View{Entry: first, Queue: alone},
			want: Candidate{WantsToLead: true, WithdrawReason: leaderelection.ErrWithdrawn},
			o:    Orders{EndReason: leaderelection.ErrWithdrawn, ReleaseEntry: true}},
		"withdraws from the queue": {is: placed.Withdraw(leaderelection.ErrWithdrawn),
			view: View{Entry: queued, Queue: alone},
			want: Candidate{WantsToLead: true, WithdrawReason: leaderelection.ErrWithdrawn}, o: Orders{ReleaseEntry: true}},
		"stands anew": {is: Candidate{WithdrawReason: leaderelection.ErrWithdrawn}.Stand(nil),
			want: placed, o: Orders{EnterQueue: true}},
		"but not after the end": {is: Candidate{WithdrawReason: lifecycle.ErrStopped}.Stand(nil),
			want: Candidate{WantsToLead: true, WithdrawReason: lifecycle.ErrStopped}},
		"its session is lost": {is: leads, view: View{Entry: OwnEntry{CreateRevision: 5, Decided: true, EndCause: errLost},
			WorkRunning: true},
			want: ends, o: Orders{EndReason: errLost, CutOffReason: errLost}},
		"its key is gone": {is: leads, view: View{Entry: first, Queue: queue(), WorkRunning: true},
			want: Candidate{WantsToLead: true, Phase: AwaitingWork, ReleaseReason: leaderelection.ErrKeyLost},
			o:    Orders{EndReason: leaderelection.ErrKeyLost, CutOffReason: leaderelection.ErrKeyLost}},
		"its key is gone while it waits": {is: placed, view: View{Entry: queued, Queue: queue()},
			want: placed, o: Orders{ReleaseEntry: true, EnterQueue: true}},
		"another priority": {is: Candidate{WantsToLead: true, Phase: Queued, Priority: 1},
			view: View{Entry: queued, Queue: alone},
			want: Candidate{WantsToLead: true, Phase: Queued, Priority: 1, QueuedPriority: 1},
			o:    Orders{ReleaseEntry: true, EnterQueue: true}},
	} {
		t.Run(name, func(t *testing.T) {
			now, o := c.is.Decide(c.view)
			now.Preferred = order.PreferredSince{}
			require.Equal(t, c.want, now)
			require.Equal(t, c.o, o)
		})
	}
}

// A preferred candidate is let pass once it has stood for long enough. Decide must be called again at that time.
func TestLooksAgain(t *testing.T) {
	c := Candidate{WantsToLead: true, Phase: Leading}
	v := View{Now: time.Unix(1, 0), PreferAfter: time.Second, Entry: first,
		Queue: queue(own, order.Entry{Key: "better", CreateRevision: 6, Priority: 1})}
	c, o := c.Decide(v)
	require.Equal(t, Orders{RecheckAfter: time.Second}, o)
	v.Now = v.Now.Add(time.Second)
	c, o = c.Decide(v)
	require.Equal(t, Orders{EndReason: ErrGaveWay, ReleaseEntry: true, EnterQueue: true}, o)
	require.Equal(t, Queued, c.Phase)
}

// Whatever is known and requested: a term starts only with a valid entry, and is lowered before its entry is
// abandoned. The entry is abandoned only when no work is waited for. A process that must not stand
// does not queue.
func TestWhateverIsKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Candidate
		leading, ending := false, false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "wants") {
			case 0:
				c = c.Stand(nil)
			case 1:
				c = c.Withdraw(leaderelection.ErrWithdrawn)
			case 2:
				if leading {
					c = c.Resign()
				}
			case 3:
				c = c.RetryAllowed()
			case 4:
				priority := rapid.IntRange(0, 2).Draw(t, "priority")
				c = c.Stand(&priority)
			}
			v := View{WorkRunning: rapid.Bool().Draw(t, "work"), PreferAfter: time.Second}
			switch rapid.IntRange(0, 2).Draw(t, "queue") {
			case 0:
				v.Queue = alone
			case 1:
				v.Queue = queue()
			}
			if c.Phase != NotQueued {
				v.Entry = OwnEntry{Key: "own"}
				switch do := rapid.IntRange(0, 4).Draw(t, "place"); {
				case leading || ending || do == 0:
					v.Entry = first
					if do == 1 {
						v.Entry.EndCause = errLost
					}
				case do == 1:
					v.Entry = OwnEntry{Decided: true, Err: errNo, Final: rapid.Bool().Draw(t, "final")}
				case do == 2:
					v.Entry.SessionLost = true
				}
			}
			before := c
			var o Orders
			c, o = c.Decide(v)
			if o.EndReason != nil {
				require.True(t, leading)
				leading, ending = false, true
			}
			require.False(t, leading && (o.ReleaseEntry || o.DropEntry), "abandoned with its flag up")
			if o.ReleaseEntry && ending {
				require.False(t, v.WorkRunning)
				ending = false
			}
			if o.BeginTerm {
				require.True(t, v.Entry.Decided && v.Entry.Err == nil && v.Entry.EndCause == nil && !leading && !ending)
				leading = true
			}
			require.Equal(t, leading, c.Phase == Leading)
			require.Equal(t, ending, c.Phase == AwaitingWork)
			if o.EnterQueue {
				require.True(t, c.WantsToLead && c.WithdrawReason == nil && !c.Denied)
				require.False(t, o.BeginTerm)
				if rapid.Bool().Draw(t, "no session") {
					c = c.NotEntered()
				}
			}
			require.False(t, before.Phase == Queued && c.Phase == NotQueued && !o.ReleaseEntry && !o.DropEntry && !o.EnterQueue)
		}
	})
}
