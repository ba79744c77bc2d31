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
	return func(p State) (State, Orders) { return p.KeyCreated(7, first, s) }
}
func atHead(s Session) step { return func(p State) (State, Orders) { return p.HeadReached(s) } }
func confirmed(clear bool, s Session) step {
	return func(p State) (State, Orders) { return p.ReleaseConfirmed(clear, s) }
}

var (
	abandon  step = State.Release
	expel    step = State.RevokeOrRelease
	vanished step = State.KeyVanished
	deleted  step = State.KeyDeleted
)

func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		try   bool
		steps []step
		want  State // Create is 7 if a step creates the key
		last  Orders
	}{
		"first at once": {steps: []step{created(true, ready)},
			want: State{Claim: Granted, Key: Exists, CreateRevision: 7}, last: Orders{CloseDecided: true, NotifyOwner: true}},
		"behind others": {steps: []step{created(false, ready)},
			want: State{Key: Exists, CreateRevision: 7, Registered: true},
			last: Orders{RegisterWaiter: true, NotifyOwner: true}},
		"then first": {steps: []step{created(false, ready), atHead(ready)},
			want: State{Claim: Granted, Key: Exists, CreateRevision: 7},
			last: Orders{CloseDecided: true, NotifyOwner: true, UnregisterWaiter: true}},
		"first, but the session may not be acted on": {steps: []step{created(true, useless)},
			want: State{Key: Exists, CreateRevision: 7, Registered: true},
			last: Orders{RegisterWaiter: true, NotifyOwner: true}},
		"nor when it is looked again": {steps: []step{created(true, useless), atHead(useless)},
			want: State{Key: Exists, CreateRevision: 7, Registered: true}},
		"one who tries does not wait": {try: true, steps: []step{created(false, ready)},
			want: State{Claim: NotGranted, Key: Deleting, CreateRevision: 7, Try: true, Err: ErrNotFirst},
			last: Orders{CloseDecided: true, NotifyOwner: true, DeleteKey: true, StopCause: ErrReleased}},
		"nor for a session": {try: true, steps: []step{created(true, useless)},
			want: State{Claim: NotGranted, Key: Deleting, CreateRevision: 7, Try: true, Err: ErrNotFirst},
			last: Orders{CloseDecided: true, NotifyOwner: true, DeleteKey: true, StopCause: ErrReleased}},
		"somebody may count on it": {steps: []step{created(true, stale)},
			want: State{Claim: HeldBack, Key: Exists, CreateRevision: 7}, last: Orders{HoldBack: true, NotifyOwner: true}},
		"asked once": {steps: []step{created(true, stale), atHead(ready)},
			want: State{Claim: HeldBack, Key: Exists, CreateRevision: 7}},
		"nobody does": {steps: []step{created(true, stale), confirmed(true, stale)},
			want: State{Claim: Granted, Key: Exists, CreateRevision: 7}, last: Orders{CloseDecided: true, NotifyOwner: true}},
		"nobody does, but the session may not be acted on": {
			steps: []step{created(true, stale), confirmed(true, useless)},
			want:  State{Claim: Confirmed, Key: Exists, CreateRevision: 7, Registered: true},
			last:  Orders{RegisterWaiter: true}},
		"and is not asked again": {
			steps: []step{created(true, stale), confirmed(true, useless), atHead(stale)},
			want:  State{Claim: Granted, Key: Exists, CreateRevision: 7},
			last:  Orders{CloseDecided: true, NotifyOwner: true, UnregisterWaiter: true}},
		"somebody does": {steps: []step{created(true, stale), confirmed(false, ready)},
			want: State{Key: Exists, CreateRevision: 7, Registered: true}, last: Orders{RegisterWaiter: true}},
		"somebody does, and it tries": {try: true, steps: []step{created(true, stale), confirmed(false, ready)},
			want: State{Claim: NotGranted, Key: Deleting, CreateRevision: 7, Try: true, Err: ErrNotFirst},
			last: Orders{CloseDecided: true, NotifyOwner: true, DeleteKey: true, StopCause: ErrReleased}},
		"given up while that is asked": {steps: []step{created(true, stale), abandon, confirmed(true, ready)},
			want: State{Key: Deleting, CreateRevision: 7}},
		"given up before etcd answers": {steps: []step{abandon}, want: State{Key: Unwanted}},
		"which is done when it does": {steps: []step{abandon, created(true, ready)},
			want: State{Key: Deleting, CreateRevision: 7}, last: Orders{StopCause: ErrReleased, DeleteKey: true}},
		"left": {steps: []step{created(true, ready), abandon},
			want: State{Claim: Granted, Key: Deleting, CreateRevision: 7},
			last: Orders{StopCause: ErrReleased, DeleteKey: true}},
		"once": {steps: []step{created(true, ready), abandon, abandon},
			want: State{Claim: Granted, Key: Deleting, CreateRevision: 7}},
		"left while listed": {steps: []step{created(false, ready), abandon},
			want: State{Key: Deleting, CreateRevision: 7},
			last: Orders{UnregisterWaiter: true, StopCause: ErrReleased, DeleteKey: true}},
		"gone": {steps: []step{created(true, ready), abandon, deleted},
			want: State{Claim: Granted, Key: Absent, CreateRevision: 7}, last: Orders{ForgetKey: true, CloseGone: true}},
		"refused": {steps: []step{func(p State) (State, Orders) { return p.CreationRefused(errNo) }},
			want: State{Claim: NotGranted, Key: Absent, Err: errNo},
			last: Orders{CloseDecided: true, NotifyOwner: true, ForgetKey: true, CloseGone: true}},
		"refused to go": {steps: []step{created(true, ready), abandon,
			func(p State) (State, Orders) { return p.DeletionRefused(errNo) }},
			want: State{Claim: Granted, Key: Deleting, CreateRevision: 7, Refused: errNo}, last: Orders{CloseGone: true}},
		"the key of one that waits vanished": {steps: []step{created(false, ready), vanished},
			want: State{Claim: NotGranted, Key: Absent, CreateRevision: 7, Err: ErrEntryLost},
			last: Orders{CloseDecided: true, NotifyOwner: true, UnregisterWaiter: true, ForgetKey: true, CloseGone: true}},
		"of one that is first": {steps: []step{created(true, ready), vanished},
			want: State{Claim: Granted, Key: Exists, CreateRevision: 7, Err: ErrKeyLost},
			last: Orders{StopCause: ErrKeyLost, NotifyOwner: true}},
		"of one that leaves": {steps: []step{created(true, ready), abandon, vanished},
			want: State{Claim: Granted, Key: Deleting, CreateRevision: 7}},
		"expelled first": {steps: []step{created(true, ready), expel},
			want: State{Claim: Granted, Key: Exists, CreateRevision: 7, Err: lifecycle.ErrStopped},
			last: Orders{StopCause: lifecycle.ErrStopped, NotifyOwner: true}},
		"expelled waiting": {steps: []step{created(false, ready), expel},
			want: State{Claim: NotGranted, Key: Deleting, CreateRevision: 7, Err: lifecycle.ErrStopped},
			last: Orders{CloseDecided: true, NotifyOwner: true, UnregisterWaiter: true, StopCause: ErrReleased,
				DeleteKey: true}},
		"expelled on its way": {steps: []step{expel, created(true, ready)},
			want: State{Claim: NotGranted, Key: Deleting, CreateRevision: 7, Err: lifecycle.ErrStopped},
			last: Orders{StopCause: ErrReleased, DeleteKey: true}},
		"the session is lost on its way": {steps: []step{
			func(p State) (State, Orders) { return p.FailGrant(ErrEntryLost) }, created(true, ready)},
			want: State{Claim: NotGranted, Key: Exists, CreateRevision: 7, Err: ErrEntryLost}},
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
			case do == 0 && (p.Key == Requested || p.Key == Unwanted):
				p, o = p.KeyCreated(7, rapid.Bool().Draw(t, "first"), s)
			case do == 1:
				p, o = p.HeadReached(s)
			case do == 2 && asks > 0:
				asks--
				p, o = p.ReleaseConfirmed(rapid.Bool().Draw(t, "clear"), s)
			case do == 3:
				p, o = p.Release()
			case do == 4:
				p, o = p.RevokeOrRelease()
			case do == 5:
				p, o = p.Revoke(errNo)
			case do == 6 && (p.Key == Exists || p.Key == Deleting):
				p, o = p.KeyVanished()
			case do == 7 && p.Key == Deleting:
				p, o = p.KeyDeleted()
			case do == 8 && p.Key == Deleting:
				p, o = p.DeletionRefused(errNo)
			case do == 9:
				p, o = p.FailGrant(ErrEntryLost)
			}
			if o.CloseDecided {
				settled++
			}
			if o.HoldBack {
				asks++
			}
			if o.DeleteKey {
				deletions++
			}
			if o.ForgetKey {
				forgotten++
			}
			stopped = stopped || o.StopCause != nil
			require.False(t, o.RegisterWaiter && (listed && do != 2 || o.UnregisterWaiter), "listed twice")
			require.False(t, o.UnregisterWaiter && !listed)
			listed = listed && !o.UnregisterWaiter || o.RegisterWaiter
			require.Equal(t, listed, p.Registered)
			require.LessOrEqual(t, asks, 1)
			require.Equal(t, p.Decided(), settled == 1)
			if before.Decided() {
				require.Equal(t, before.Claim, p.Claim)
			}
			if p.Claim == Granted && before.Claim != Granted {
				require.True(t, s.Usable && (s.Fresh || do == 2 || before.Claim == Confirmed))
				require.Equal(t, Exists, p.Key)
			}
			if before.Claim == Granted && before.KeyExpected() && !p.KeyExpected() {
				require.NotNil(t, o.StopCause)
			}
			require.LessOrEqual(t, deletions, 1)
			require.LessOrEqual(t, forgotten, 1)
			require.Equal(t, p.Key == Absent, forgotten == 1)
			if p.Claim == Granted && p.Key != Exists {
				require.True(t, stopped)
			}
			if p.Registered {
				require.True(t, p.Key == Exists && !p.Decided(), "%+v", p)
			}
		}
	})
}
