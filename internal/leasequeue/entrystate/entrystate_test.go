package entrystate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/internal/lifecycle"
)

var (
	ready   = Session{Usable: true, Fresh: true}
	stale   = Session{Usable: true}
	useless = Session{}
	errNo   = errors.New("etcd says no")
)

// step is one event in the tables.
type step func(State) (State, Orders)

func created(first bool, s Session) step {
	return func(p State) (State, Orders) { return p.Created(7, first, s) }
}
func atHead(s Session) step { return func(p State) (State, Orders) { return p.AtHead(s) } }
func confirmed(clear bool, s Session) step {
	return func(p State) (State, Orders) { return p.Confirmed(clear, s) }
}

var (
	abandon  step = State.Abandon
	expel    step = State.Expel
	vanished step = State.Vanished
	deleted  step = State.Deleted
)

func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		try   bool
		steps []step
		want  State // Create is 7 if a step creates the key
		last  Orders
	}{
		"first at once": {steps: []step{created(true, ready)},
			want: State{Claim: First, Key: Stands, Create: 7}, last: Orders{Settle: true, Notify: true}},
		"behind others": {steps: []step{created(false, ready)},
			want: State{Key: Stands, Create: 7, Listed: true}, last: Orders{List: true, Notify: true}},
		"then first": {steps: []step{created(false, ready), atHead(ready)},
			want: State{Claim: First, Key: Stands, Create: 7}, last: Orders{Settle: true, Notify: true, Unlist: true}},
		"first, but the session may not be acted on": {steps: []step{created(true, useless)},
			want: State{Key: Stands, Create: 7, Listed: true}, last: Orders{List: true, Notify: true}},
		"nor when it is looked again": {steps: []step{created(true, useless), atHead(useless)},
			want: State{Key: Stands, Create: 7, Listed: true}},
		"one who tries does not wait": {try: true, steps: []step{created(false, ready)},
			want: State{Claim: Over, Key: Leaving, Create: 7, Try: true, Err: ErrTaken},
			last: Orders{Settle: true, Notify: true, Delete: true, Stop: ErrLeft}},
		"nor for a session": {try: true, steps: []step{created(true, useless)},
			want: State{Claim: Over, Key: Leaving, Create: 7, Try: true, Err: ErrTaken},
			last: Orders{Settle: true, Notify: true, Delete: true, Stop: ErrLeft}},
		"somebody may count on it": {steps: []step{created(true, stale)},
			want: State{Claim: Clearing, Key: Stands, Create: 7}, last: Orders{Clear: true, Notify: true}},
		"asked once": {steps: []step{created(true, stale), atHead(ready)},
			want: State{Claim: Clearing, Key: Stands, Create: 7}},
		"nobody does": {steps: []step{created(true, stale), confirmed(true, stale)},
			want: State{Claim: First, Key: Stands, Create: 7}, last: Orders{Settle: true, Notify: true}},
		"nobody does, but the session may not be acted on": {
			steps: []step{created(true, stale), confirmed(true, useless)},
			want:  State{Claim: Cleared, Key: Stands, Create: 7, Listed: true}, last: Orders{List: true}},
		"and is not asked again": {
			steps: []step{created(true, stale), confirmed(true, useless), atHead(stale)},
			want:  State{Claim: First, Key: Stands, Create: 7}, last: Orders{Settle: true, Notify: true, Unlist: true}},
		"somebody does": {steps: []step{created(true, stale), confirmed(false, ready)},
			want: State{Key: Stands, Create: 7, Listed: true}, last: Orders{List: true}},
		"somebody does, and it tries": {try: true, steps: []step{created(true, stale), confirmed(false, ready)},
			want: State{Claim: Over, Key: Leaving, Create: 7, Try: true, Err: ErrTaken},
			last: Orders{Settle: true, Notify: true, Delete: true, Stop: ErrLeft}},
		"given up while that is asked": {steps: []step{created(true, stale), abandon, confirmed(true, ready)},
			want: State{Key: Leaving, Create: 7}},
		"given up before etcd answers": {steps: []step{abandon}, want: State{Key: Unwanted}},
		"which is done when it does": {steps: []step{abandon, created(true, ready)},
			want: State{Key: Leaving, Create: 7}, last: Orders{Stop: ErrLeft, Delete: true}},
		"left": {steps: []step{created(true, ready), abandon},
			want: State{Claim: First, Key: Leaving, Create: 7}, last: Orders{Stop: ErrLeft, Delete: true}},
		"once": {steps: []step{created(true, ready), abandon, abandon},
			want: State{Claim: First, Key: Leaving, Create: 7}},
		"left while listed": {steps: []step{created(false, ready), abandon},
			want: State{Key: Leaving, Create: 7},
			last: Orders{Unlist: true, Stop: ErrLeft, Delete: true}},
		"gone": {steps: []step{created(true, ready), abandon, deleted},
			want: State{Claim: First, Key: Gone, Create: 7}, last: Orders{Forget: true, Gone: true}},
		"refused": {steps: []step{func(p State) (State, Orders) { return p.NotCreated(errNo) }},
			want: State{Claim: Over, Key: Gone, Err: errNo},
			last: Orders{Settle: true, Notify: true, Forget: true, Gone: true}},
		"refused to go": {steps: []step{created(true, ready), abandon,
			func(p State) (State, Orders) { return p.NotDeleted(errNo) }},
			want: State{Claim: First, Key: Leaving, Create: 7, Refused: errNo}, last: Orders{Gone: true}},
		"the key of one that waits vanished": {steps: []step{created(false, ready), vanished},
			want: State{Claim: Over, Key: Gone, Create: 7, Err: ErrAgain},
			last: Orders{Settle: true, Notify: true, Unlist: true, Forget: true, Gone: true}},
		"of one that is first": {steps: []step{created(true, ready), vanished},
			want: State{Claim: First, Key: Stands, Create: 7, Err: ErrKeyGone},
			last: Orders{Stop: ErrKeyGone, Notify: true}},
		"of one that leaves": {steps: []step{created(true, ready), abandon, vanished},
			want: State{Claim: First, Key: Leaving, Create: 7}},
		"expelled first": {steps: []step{created(true, ready), expel},
			want: State{Claim: First, Key: Stands, Create: 7, Err: lifecycle.ErrStopped},
			last: Orders{Stop: lifecycle.ErrStopped, Notify: true}},
		"expelled waiting": {steps: []step{created(false, ready), expel},
			want: State{Claim: Over, Key: Leaving, Create: 7, Err: lifecycle.ErrStopped},
			last: Orders{Settle: true, Notify: true, Unlist: true, Stop: ErrLeft, Delete: true}},
		"expelled on its way": {steps: []step{expel, created(true, ready)},
			want: State{Claim: Over, Key: Leaving, Create: 7, Err: lifecycle.ErrStopped},
			last: Orders{Stop: ErrLeft, Delete: true}},
		"the session is lost on its way": {steps: []step{
			func(p State) (State, Orders) { return p.End(ErrAgain) }, created(true, ready)},
			want: State{Claim: Over, Key: Stands, Create: 7, Err: ErrAgain}},
	} {
		t.Run(name, func(t *testing.T) {
			p, o := State{Try: c.try}, Orders{}
			for _, s := range c.steps {
				p, o = s(p)
			}
			require.Equal(t, c.want, p)
			require.Equal(t, c.last, o)
		})
	}
}

// Whatever happens, in whatever order: an entry settles once and stays settled. It is granted only if the
// session may be acted on and no former holder relies on its entry. Its contexts end before its key is deleted,
// its key is deleted once, and it is forgotten once and last.
func TestWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := State{Try: rapid.Bool().Draw(t, "try")}
		settled, stopped, deletions, forgotten, listed, asks := 0, false, 0, 0, false, 0
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			before := p
			s := Session{Usable: rapid.Bool().Draw(t, "usable"), Fresh: rapid.Bool().Draw(t, "fresh")}
			var o Orders
			do := rapid.IntRange(0, 9).Draw(t, "what")
			switch {
			case do == 0 && (p.Key == Asked || p.Key == Unwanted):
				p, o = p.Created(7, rapid.Bool().Draw(t, "first"), s)
			case do == 1:
				p, o = p.AtHead(s)
			case do == 2 && asks > 0:
				asks--
				p, o = p.Confirmed(rapid.Bool().Draw(t, "clear"), s)
			case do == 3:
				p, o = p.Abandon()
			case do == 4:
				p, o = p.Expel()
			case do == 5:
				p, o = p.Revoke(errNo)
			case do == 6 && (p.Key == Stands || p.Key == Leaving):
				p, o = p.Vanished()
			case do == 7 && p.Key == Leaving:
				p, o = p.Deleted()
			case do == 8 && p.Key == Leaving:
				p, o = p.NotDeleted(errNo)
			case do == 9:
				p, o = p.End(ErrAgain)
			}
			if o.Settle {
				settled++
			}
			if o.Clear {
				asks++
			}
			if o.Delete {
				deletions++
			}
			if o.Forget {
				forgotten++
			}
			stopped = stopped || o.Stop != nil
			require.False(t, o.List && (listed && do != 2 || o.Unlist), "listed twice")
			require.False(t, o.Unlist && !listed)
			listed = listed && !o.Unlist || o.List
			require.Equal(t, listed, p.Listed)
			require.LessOrEqual(t, asks, 1)
			require.Equal(t, p.Settled(), settled == 1)
			if before.Settled() {
				require.Equal(t, before.Claim, p.Claim)
			}
			if p.Claim == First && before.Claim != First {
				require.True(t, s.Usable && (s.Fresh || do == 2 || before.Claim == Cleared))
				require.Equal(t, Stands, p.Key)
			}
			if before.MayAct() && !p.MayAct() {
				require.NotNil(t, o.Stop)
			}
			require.LessOrEqual(t, deletions, 1)
			require.LessOrEqual(t, forgotten, 1)
			require.Equal(t, p.Key == Gone, forgotten == 1)
			if p.Claim == First && p.Key != Stands {
				require.True(t, stopped)
			}
			if p.Listed {
				require.True(t, p.Key == Stands && !p.Settled(), "%+v", p)
			}
		}
	})
}
