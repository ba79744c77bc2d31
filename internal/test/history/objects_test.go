package history

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/race"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/internal/objects/hosted"
)

// activationRuns is an activation of the object "x": first asked at asked, and certainly active between from and
// to.
func activationRuns(node string, life int, epoch int64, from, to int) []Run {
	w := NodeLife{Process: "p-" + node, Node: node, Life: life}
	run := func(active bool, first, last Window) Run {
		r := Run{NodeLife: w, Subject: Object("s", "x"), Leads: active, First: first, Last: last, Count: 1}
		if active {
			r.Token = epoch
		}
		return r
	}
	return []Run{run(false, newWindow(from-2, from-2), newWindow(from-2, from-2)),
		run(true, newWindow(from-1, from), newWindow(to, to+1)), run(false, newWindow(to+1, to+2), newWindow(to+1, to+2))}
}

func TestActivationsOneByOne(t *testing.T) {
	h := historyOfHolds(activationRuns("a", 1, 5, 10, 20), activationRuns("a", 2, 5, 25, 40),
		activationRuns("b", 1, 7, 50, 60),
		activationRuns("a", 3, 8, 70, 80))
	h.Calls = objectCalls(fakeCall{true, 1, 0, 9})
	v := Check(h, Limits{})
	require.True(t, v.OK(), "%v", v)
	require.Equal(t, 4, v.Seen.Activations)
}

func TestTwoActivations(t *testing.T) {
	for name, h := range map[string]History{
		"on two nodes":          historyOfHolds(activationRuns("a", 1, 5, 10, 40), activationRuns("b", 1, 7, 30, 60)),
		"on one node":           historyOfHolds(activationRuns("a", 1, 5, 10, 40), activationRuns("a", 2, 5, 30, 60)),
		"the older one is back": historyOfHolds(activationRuns("a", 1, 5, 10, 70), activationRuns("b", 1, 7, 30, 60)),
	} {
		h.Calls = objectCalls(fakeCall{true, 1, 0, 9})
		v := Check(h, Limits{})
		require.Equal(t, []Kind{Overlap}, kinds(v.Findings), "%s: %v", name, v)
		require.Contains(t, v.String(), "two activations of object s x")
	}
	for name, h := range map[string]History{
		"a smaller epoch":               historyOfHolds(activationRuns("a", 1, 7, 10, 20), activationRuns("b", 1, 5, 30, 60)),
		"the same one, on another node": historyOfHolds(activationRuns("a", 1, 7, 10, 20), activationRuns("b", 1, 7, 30, 60)),
	} {
		h.Calls = objectCalls(fakeCall{true, 1, 0, 9})
		v := Check(h, Limits{})
		require.Equal(t, []Kind{Token}, kinds(v.Findings), "%s: %v", name, v)
	}
}

// fakeCall is a call made and answered at these times; 0 means not answered.
type fakeCall struct {
	adds       bool
	value      int64
	made, back int
}

func objectCalls(all ...fakeCall) (out []ObjectCall) {
	for i, c := range all {
		out = append(out, ObjectCall{Process: "p", ID: int64(i), Object: Object("s", "x"), Adds: c.adds, Value: c.value,
			Call: ms(c.made), Return: ms(c.back)})
	}
	return out
}

func TestCallsOfObjects(t *testing.T) {
	for name, c := range map[string]struct {
		calls []ObjectCall
		bad   bool
	}{
		"one after the other": {objectCalls(fakeCall{true, 1, 1, 2}, fakeCall{false, 1, 3, 4},
			fakeCall{true, 2, 5, 6}), false},
		"at once": {objectCalls(fakeCall{true, 2, 1, 9}, fakeCall{true, 1, 2, 8},
			fakeCall{false, 0, 3, 7}), false},
		"not answered, but done":     {objectCalls(fakeCall{true, 0, 1, 0}, fakeCall{true, 2, 3, 4}), false},
		"not answered, and not done": {objectCalls(fakeCall{true, 0, 1, 0}, fakeCall{true, 1, 3, 4}), false},
		"not answered, done later": {objectCalls(fakeCall{true, 0, 1, 0}, fakeCall{true, 1, 3, 4},
			fakeCall{false, 2, 5, 6}), false},
		"a read, not answered": {objectCalls(fakeCall{false, 0, 1, 0}, fakeCall{true, 1, 3, 4}), false},
		"doubled":              {objectCalls(fakeCall{true, 1, 1, 2}, fakeCall{true, 3, 3, 4}), true},
		"lost":                 {objectCalls(fakeCall{true, 1, 1, 2}, fakeCall{true, 1, 3, 4}), true},
		"lost afterwards":      {objectCalls(fakeCall{true, 1, 1, 2}, fakeCall{false, 0, 3, 4}), true},
		"an old read": {objectCalls(fakeCall{true, 1, 1, 2}, fakeCall{true, 2, 3, 4},
			fakeCall{false, 1, 5, 6}), true},
		"done before it was called": {objectCalls(fakeCall{true, 2, 1, 2}, fakeCall{true, 1, 3, 4}), true},
		"not answered, done twice":  {objectCalls(fakeCall{true, 0, 1, 0}, fakeCall{true, 3, 3, 4}), true},
	} {
		v := Check(History{Calls: c.calls}, Limits{})
		require.Equal(t, !c.bad, v.OK(), "%s: %v", name, v)
		if c.bad {
			require.Equal(t, []Kind{NotLinearizable}, kinds(v.Findings), "%s: %v", name, v)
			require.Contains(t, v.String(), "object s x: not linearizable", name)
		}
	}
}

// TestCallOfAnExemptActivation checks that a read by the older of two exempt activations is exempt, and an
// increment is not.
func TestCallOfAnExemptActivation(t *testing.T) {
	h := History{Calls: objectCalls(fakeCall{true, 1, 1, 2}, fakeCall{true, 2, 3, 4}, fakeCall{false, 1, 30, 40}),
		Marks: []Mark{newMark("a", LeaseRevoked, 25, 26)}}
	require.True(t, Check(h, exemptRobbery).OK())
	require.False(t, Check(h, Limits{}).OK(), "nothing is excused unasked")
	h.Marks[0].Name = KeyDeleted
	require.False(t, Check(h, exemptRobbery).OK(), "of leadership alone")
	h.Marks[0].Name = LeaseRevoked
	h.Calls[2].Adds, h.Calls[2].Value = true, 2
	require.False(t, Check(h, exemptRobbery).OK())
}

// TestManyCallsOfAnObject checks that the search is quick with many callers of one object, and finds a stale
// read.
func TestManyCallsOfAnObject(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []fakeCall
	at, n, calls := 0, int64(0), 20_000
	if race.Enabled { // some ten times as slow, and the search has a time limit
		calls = 2_000
	}
	for range calls {
		at += 1 + rnd.IntN(3)
		adds := rnd.IntN(4) > 0
		if adds {
			n++
		}
		all = append(all, fakeCall{adds, n, at - rnd.IntN(10), at + 1 + rnd.IntN(10)})
	}
	require.True(t, Check(History{Calls: objectCalls(all...)}, Limits{}).OK())
	all = append(all, fakeCall{false, n - 1, at + 100, at + 101})
	require.False(t, Check(History{Calls: objectCalls(all...)}, Limits{}).OK())
}

// fakeActivation is an activation with a validity that the test sets.
type fakeActivation struct {
	hosted.Activation
	valid atomic.Bool
}

func (*fakeActivation) Service() string                           { return "s" }
func (*fakeActivation) Key() string                               { return "x" }
func (*fakeActivation) Epoch() int64                              { return 5 }
func (f *fakeActivation) Valid() bool                             { return f.valid.Load() }
func (*fakeActivation) At(string) (none grpc.ClientConnInterface) { return none }
func (*fakeActivation) Context() context.Context                  { return context.Background() }

func TestActivationsAreSampled(t *testing.T) {
	for name, ends := range map[string]func(*fakeActivation, *Activation){
		"it says that it is over": func(f *fakeActivation, a *Activation) {
			f.valid.Store(false)
			a.claim.sampleOnce()
		},
		"it is deactivated": func(_ *fakeActivation, a *Activation) { a.Deactivated() },
		"it never ends":     func(*fakeActivation, *Activation) {},
	} {
		var text bytes.Buffer
		rec := NewRecorder(&text, "test")
		of := rec.Objects("a", func() int64 { return 1 })
		activate := func() (*fakeActivation, *Activation) {
			f := &fakeActivation{}
			f.valid.Store(true)
			o := hosted.NewObject(f)
			return f, of.Activated((*objects.Object)(&o))
		}
		first, a := activate()
		pauseFor(t.Context(), 3*sampleEvery)
		ends(first, a)
		activate()
		pauseFor(t.Context(), 3*sampleEvery)
		rec.ObjectCall(Object("s", "x"), true)(1)
		require.NoError(t, rec.Stop())
		h, err := Read(&text)
		require.NoError(t, err)
		v := Check(h, Limits{})
		require.Equal(t, name != "it never ends", v.OK(), "%s: %v", name, v)
		require.Equal(t, 2, v.Seen.Activations)
		require.Equal(t, 1, v.Seen.Answered)
	}
}
