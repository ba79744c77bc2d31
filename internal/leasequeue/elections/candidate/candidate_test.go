package candidate

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/cluster/election"
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
func queue(entries ...order.Entry) order.Queue { return order.Queue{}.Read(20, entries) }

var (
	own    = order.Entry{Key: "own", Create: 5}
	alone  = queue(own)
	first  = Place{Key: "own", Create: 5, Settled: true, Stands: true}
	queued = Place{Key: "own", Create: 5}
)

func TestLook(t *testing.T) {
	leads, placed := Candidate{Stands: true, Standing: Leads}, Candidate{Stands: true, Standing: Placed}
	ends := Candidate{Stands: true, Standing: Ends}
	for name, c := range map[string]struct {
		is   Candidate
		view View
		want Candidate
		o    Orders
	}{
		"follows only": {},
		"queues": {is: Candidate{Stands: true, Priority: 3},
			want: Candidate{Stands: true, Standing: Placed, Priority: 3, Placement: 3}, o: Orders{Enter: true}},
		"not after it left":   {is: Candidate{Stands: true, Gone: errNo}, want: Candidate{Stands: true, Gone: errNo}},
		"nor while denied":    {is: Candidate{Stands: true, Denied: true}, want: Candidate{Stands: true, Denied: true}},
		"waits for its place": {is: placed, view: View{Place: queued, Queue: alone}, want: placed},
		"begins":              {is: placed, view: View{Place: first, Queue: alone}, want: leads, o: Orders{Begin: true}},
		"goes on":             {is: leads, view: View{Place: first, Queue: alone}, want: leads},
		"over before it began": {is: placed, view: View{Place: Place{Create: 5, Settled: true, Over: errLost}},
			want: placed, o: Orders{Abandon: true, Enter: true}},
		"the session is lost while it waits": {is: placed, view: View{Place: Place{SessionLost: true}},
			want: placed, o: Orders{Drop: true, Enter: true}},
		"its place is lost": {is: placed, view: View{Place: Place{Settled: true, Err: entrystate.ErrAgain}},
			want: placed, o: Orders{Drop: true, Enter: true}},
		"refused": {is: placed, view: View{Place: Place{Settled: true, Err: errNo}},
			want: Candidate{Stands: true, Denied: true}, o: Orders{Drop: true, Refused: errNo}},
		"refused for good": {is: placed, view: View{Place: Place{Settled: true, Err: errNo, Final: true}},
			want: Candidate{Stands: true, Gone: errNo}, o: Orders{Drop: true, Refused: errNo, Final: true}},
		"resigns": {is: leads.Resign(), view: View{Place: first, Queue: alone},
			want: placed, o: Orders{Lower: ErrResigned, Cut: ErrOver, Abandon: true, Enter: true}},
		"resigns, and waits for its work": {is: leads.Resign(), view: View{Place: first, Queue: alone, Work: 1},
			want: Candidate{Stands: true, Standing: Ends, GiveUp: ErrResigned}, o: Orders{Lower: ErrResigned, Wait: true}},
		"which has returned": {is: ends.Resign(), view: View{Place: first, Queue: alone},
			want: placed, o: Orders{Cut: ErrOver, Abandon: true, Enter: true}},
		"or was waited for in vain": {is: ends.Resign().Waited(), view: View{Place: first, Queue: alone, Work: 1},
			want: placed,
			o:    Orders{Cut: ErrOver, Overdue: true, Abandon: true, Enter: true}},
		"and another one may lead meanwhile": {is: ends.Resign(),
			view: View{Place: first, Queue: queue(), Work: 1}, want: ends.Resign(), o: Orders{Cut: election.ErrKeyLost}},
		"withdraws": {is: leads.Leave(election.ErrWithdrawn), view: View{Place: first, Queue: alone},
			want: Candidate{Stands: true, Gone: election.ErrWithdrawn},
			o:    Orders{Lower: election.ErrWithdrawn, Cut: ErrOver, Abandon: true}},
		"withdraws from the queue": {is: placed.Leave(election.ErrWithdrawn), view: View{Place: queued, Queue: alone},
			want: Candidate{Stands: true, Gone: election.ErrWithdrawn}, o: Orders{Abandon: true}},
		"stands anew": {is: Candidate{Gone: election.ErrWithdrawn}.Stand(nil),
			want: placed, o: Orders{Enter: true}},
		"but not after the end": {is: Candidate{Gone: lifecycle.ErrStopped}.Stand(nil),
			want: Candidate{Stands: true, Gone: lifecycle.ErrStopped}},
		"its session is lost": {is: leads, view: View{Place: Place{Create: 5, Settled: true, Over: errLost}, Work: 1},
			want: ends, o: Orders{Lower: errLost, Wait: true, Cut: ErrOver}},
		"its key is gone": {is: leads, view: View{Place: first, Queue: queue(), Work: 1},
			want: Candidate{Stands: true, Standing: Ends, GiveUp: election.ErrKeyLost},
			o:    Orders{Lower: election.ErrKeyLost, Wait: true, Cut: ErrOver}},
		"its key is gone while it waits": {is: placed, view: View{Place: queued, Queue: queue()},
			want: placed, o: Orders{Abandon: true, Enter: true}},
		"another priority": {is: Candidate{Stands: true, Standing: Placed, Priority: 1},
			view: View{Place: queued, Queue: alone},
			want: Candidate{Stands: true, Standing: Placed, Priority: 1, Placement: 1},
			o:    Orders{Abandon: true, Enter: true}},
	} {
		t.Run(name, func(t *testing.T) {
			now, o := c.is.Look(c.view)
			now.Yielding = order.Yielding{}
			require.Equal(t, c.want, now)
			require.Equal(t, c.o, o)
		})
	}
}

// A preferred candidate is let pass once it has stood for long enough. Look must be called again at that time.
func TestLooksAgain(t *testing.T) {
	c := Candidate{Stands: true, Standing: Leads}
	v := View{Now: time.Unix(1, 0), PreferAfter: time.Second, Place: first,
		Queue: queue(own, order.Entry{Key: "better", Create: 6, Priority: 1})}
	c, o := c.Look(v)
	require.Equal(t, Orders{Again: time.Second}, o)
	v.Now = v.Now.Add(time.Second)
	c, o = c.Look(v)
	require.Equal(t, Orders{Lower: ErrGaveWay, Cut: ErrOver, Abandon: true, Enter: true}, o)
	require.Equal(t, Placed, c.Standing)
}

// Whatever is known and requested: a term starts only with a valid entry, and is lowered before its entry is
// abandoned. The entry is abandoned only when no work runs or the wait is over. A process that must not stand
// does not queue.
func TestWhateverIsKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Candidate
		leading, ending := false, false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "wants") {
			case 0:
				c = c.Stand(nil)
			case 1:
				c = c.Leave(election.ErrWithdrawn)
			case 2:
				if leading {
					c = c.Resign()
				}
			case 3:
				c = c.Waited()
			case 4:
				c = c.Allowed()
			case 5:
				priority := rapid.IntRange(0, 2).Draw(t, "priority")
				c = c.Stand(&priority)
			}
			v := View{Work: rapid.IntRange(0, 1).Draw(t, "work"), PreferAfter: time.Second}
			switch rapid.IntRange(0, 2).Draw(t, "queue") {
			case 0:
				v.Queue = alone
			case 1:
				v.Queue = queue()
			}
			if c.Standing != None {
				v.Place = Place{Key: "own"}
				switch do := rapid.IntRange(0, 4).Draw(t, "place"); {
				case leading || ending || do == 0:
					v.Place = first
					if do == 1 {
						v.Place.Over, v.Place.Stands = errLost, false
					}
				case do == 1:
					v.Place = Place{Settled: true, Err: errNo, Final: rapid.Bool().Draw(t, "final")}
				case do == 2:
					v.Place.SessionLost = true
				}
			}
			before := c
			var o Orders
			c, o = c.Look(v)
			if o.Lower != nil {
				require.True(t, leading)
				leading, ending = false, true
			}
			require.False(t, leading && (o.Abandon || o.Drop), "abandoned with its flag up")
			if o.Abandon && ending {
				require.True(t, v.Work == 0 || o.Overdue)
				require.NotNil(t, o.Cut)
				ending = false
			}
			if o.Begin {
				require.True(t, v.Place.Stands && !leading && !ending)
				leading = true
			}
			require.Equal(t, leading, c.Standing == Leads)
			require.Equal(t, ending, c.Standing == Ends)
			if o.Enter {
				require.True(t, c.Stands && c.Gone == nil && !c.Denied)
				require.False(t, o.Begin)
				if rapid.Bool().Draw(t, "no session") {
					c = c.NotEntered()
				}
			}
			require.False(t, before.Standing == Placed && c.Standing == None && !o.Abandon && !o.Drop && !o.Enter)
		}
	})
}
