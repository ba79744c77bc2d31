package history

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster/objects"
)

// activation is an activation of the object "x": first asked at asked, and certainly active between from and
// to.
func activation(node string, life int, epoch int64, from, to int) []Run {
	w := NodeLife{Process: "p-" + node, Node: node, Life: life}
	run := func(active bool, first, last Window) Run {
		r := Run{NodeLife: w, Subject: Object("s", "x"), Leads: active, First: first, Last: last, Count: 1}
		if active {
			r.Token = epoch
		}
		return r
	}
	return []Run{run(false, window(from-2, from-2), window(from-2, from-2)),
		run(true, window(from-1, from), window(to, to+1)), run(false, window(to+1, to+2), window(to+1, to+2))}
}

func TestActivationsOneByOne(t *testing.T) {
	h := held(activation("a", 1, 5, 10, 20), activation("a", 2, 5, 25, 40), activation("b", 1, 7, 50, 60),
		activation("a", 3, 8, 70, 80))
	h.Calls = calls(call{true, 1, 0, 9})
	v := Check(h, Limits{})
	require.True(t, v.OK(), "%v", v)
	require.Equal(t, 4, v.Seen.Activations)
}

func TestTwoActivations(t *testing.T) {
	for name, h := range map[string]History{
		"on two nodes":          held(activation("a", 1, 5, 10, 40), activation("b", 1, 7, 30, 60)),
		"on one node":           held(activation("a", 1, 5, 10, 40), activation("a", 2, 5, 30, 60)),
		"the older one is back": held(activation("a", 1, 5, 10, 70), activation("b", 1, 7, 30, 60)),
	} {
		h.Calls = calls(call{true, 1, 0, 9})
		v := Check(h, Limits{})
		require.Equal(t, []Kind{Overlap}, kinds(v.Findings), "%s: %v", name, v)
		require.Contains(t, v.String(), "two activations of object s x")
	}
	for name, h := range map[string]History{
		"a smaller epoch":               held(activation("a", 1, 7, 10, 20), activation("b", 1, 5, 30, 60)),
		"the same one, on another node": held(activation("a", 1, 7, 10, 20), activation("b", 1, 7, 30, 60)),
	} {
		h.Calls = calls(call{true, 1, 0, 9})
		v := Check(h, Limits{})
		require.Equal(t, []Kind{Token}, kinds(v.Findings), "%s: %v", name, v)
	}
}

// call is a call made and answered at these times; 0 means not answered.
type call struct {
	adds       bool
	value      int64
	made, back int
}

func calls(all ...call) (out []ObjectCall) {
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
		"one after the other":        {calls(call{true, 1, 1, 2}, call{false, 1, 3, 4}, call{true, 2, 5, 6}), false},
		"at once":                    {calls(call{true, 2, 1, 9}, call{true, 1, 2, 8}, call{false, 0, 3, 7}), false},
		"not answered, but done":     {calls(call{true, 0, 1, 0}, call{true, 2, 3, 4}), false},
		"not answered, and not done": {calls(call{true, 0, 1, 0}, call{true, 1, 3, 4}), false},
		"not answered, done later":   {calls(call{true, 0, 1, 0}, call{true, 1, 3, 4}, call{false, 2, 5, 6}), false},
		"a read, not answered":       {calls(call{false, 0, 1, 0}, call{true, 1, 3, 4}), false},
		"doubled":                    {calls(call{true, 1, 1, 2}, call{true, 3, 3, 4}), true},
		"lost":                       {calls(call{true, 1, 1, 2}, call{true, 1, 3, 4}), true},
		"lost afterwards":            {calls(call{true, 1, 1, 2}, call{false, 0, 3, 4}), true},
		"an old read":                {calls(call{true, 1, 1, 2}, call{true, 2, 3, 4}, call{false, 1, 5, 6}), true},
		"done before it was called":  {calls(call{true, 2, 1, 2}, call{true, 1, 3, 4}), true},
		"not answered, done twice":   {calls(call{true, 0, 1, 0}, call{true, 3, 3, 4}), true},
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
	h := History{Calls: calls(call{true, 1, 1, 2}, call{true, 2, 3, 4}, call{false, 1, 30, 40}),
		Marks: []Mark{mark("a", LeaseRevoked, 25, 26)}}
	require.True(t, Check(h, robbers).OK())
	require.False(t, Check(h, Limits{}).OK(), "nothing is excused unasked")
	h.Marks[0].Name = KeyDeleted
	require.False(t, Check(h, robbers).OK(), "of leadership alone")
	h.Marks[0].Name = LeaseRevoked
	h.Calls[2].Adds, h.Calls[2].Value = true, 2
	require.False(t, Check(h, robbers).OK())
}

// TestManyCallsOfAnObject checks that the search is quick with many callers of one object, and finds a stale
// read.
func TestManyCallsOfAnObject(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var all []call
	at, n := 0, int64(0)
	for range 20_000 {
		at += 1 + rnd.IntN(3)
		adds := rnd.IntN(4) > 0
		if adds {
			n++
		}
		all = append(all, call{adds, n, at - rnd.IntN(10), at + 1 + rnd.IntN(10)})
	}
	require.True(t, Check(History{Calls: calls(all...)}, Limits{}).OK())
	all = append(all, call{false, n - 1, at + 100, at + 101})
	require.False(t, Check(History{Calls: calls(all...)}, Limits{}).OK())
}

// fake is an activation with a validity that the test sets.
type fake struct {
	objects.Activation
	valid atomic.Bool
}

func (*fake) Service() string                           { return "s" }
func (*fake) Key() string                               { return "x" }
func (*fake) Epoch() int64                              { return 5 }
func (f *fake) Valid() bool                             { return f.valid.Load() }
func (*fake) At(string) (none grpc.ClientConnInterface) { return none }
func (*fake) Context() context.Context                  { return context.Background() }

func TestActivationsAreSampled(t *testing.T) {
	for name, ends := range map[string]func(*fake, *Activation){
		"it says that it is over": func(f *fake, a *Activation) {
			f.valid.Store(false)
			a.claim.look()
		},
		"it is deactivated": func(_ *fake, a *Activation) { a.Deactivated() },
		"it never ends":     func(*fake, *Activation) {},
	} {
		var text bytes.Buffer
		rec := NewRecorder(&text, "test")
		of := rec.Objects("a", func() int64 { return 1 })
		activate := func() (*fake, *Activation) {
			f := &fake{}
			f.valid.Store(true)
			o := objects.Make(f)
			return f, of.Activated(&o)
		}
		first, a := activate()
		pause(t.Context(), 3*sampleEvery)
		ends(first, a)
		activate()
		pause(t.Context(), 3*sampleEvery)
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
