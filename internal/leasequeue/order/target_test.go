package order

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goverse/goverse/internal/lifecycle"
)

// world is a queue as it really is, with its history and its requests.
type world struct {
	history  []Queue   // the index is the revision
	requests []Request // oldest first
	yields   map[string]PreferredSince
	after    time.Duration
	now      time.Time
	handed   int // number of times that the first entry gave way
	moved    int // number of moves to the tail
}

func newWorld(after time.Duration) *world {
	return &world{history: []Queue{Queue{}.ApplyRead(1, nil), Queue{}.ApplyRead(1, nil)},
		yields: map[string]PreferredSince{},
		after:  after, now: time.Unix(1000, 0)}
}

func (w *world) truth() Queue { return w.history[len(w.history)-1] }

func (w *world) next() int64 { return int64(len(w.history)) }

func (w *world) enter(key string, priority int, foreign bool) {
	r := w.next()
	w.history = append(w.history, w.truth().Put(r, Entry{Key: key, CreateRevision: r, Priority: priority,
		Foreign: foreign}))
}

func (w *world) leave(key string) {
	w.history = append(w.history, w.truth().Delete(w.next(), key).AdvanceTo(w.next()))
}

func (w *world) entry(key string) (Entry, bool) {
	i := w.truth().indexOf(key)
	if i < 0 {
		return Entry{}, false
	}
	return w.truth().Entries()[i], true
}

// look makes the process of an entry look at a view and act on the result.
func (w *world) look(key string, view Queue) (moved bool, again time.Duration) {
	own, ok := w.entry(key)
	if !ok || own.Foreign {
		return false, 0
	}
	y, giveWay, again := w.yields[key].MustGiveWay(view, key, own.CreateRevision, w.requests, w.after, w.now)
	w.yields[key] = y
	if !giveWay {
		return false, again
	}
	w.moved++
	if w.truth().Entries()[0].Key == key {
		w.handed++
	}
	r := w.next() // both in one transaction
	w.history = append(w.history, w.truth().Delete(r, key).Put(r,
		Entry{Key: key, CreateRevision: r, Priority: own.Priority}))
	return true, 0
}

// settle makes all entries look at the real queue, in order, until none moves.
func (w *world) settle(t require.TestingT) {
	for range 100 {
		moved := false
		for _, e := range slices.Clone(w.truth().Entries()) {
			m, again := w.look(e.Key, w.truth())
			if again > 0 {
				w.now = w.now.Add(again)
				m, _ = w.look(e.Key, w.truth())
			}
			moved = moved || m
		}
		if !moved {
			return
		}
	}
	require.Fail(t, "they move forever", "%v", w.truth().Entries())
}

func first(q Queue) Entry {
	if len(q.Entries()) == 0 {
		return Entry{}
	}
	return q.Entries()[0]
}

// Every queue of up to five entries, with priorities and foreign entries, and every request about it: it
// settles with the requested or the preferred entry first, after one handover.
func TestEveryQueueSettles(t *testing.T) {
	const kinds = 4 // priorities 0, 1, 2; foreign
	for n, all := 1, kinds; n <= 5; n, all = n+1, all*kinds {
		for code := range all {
			for target := -2; target < n; target++ { // no request, the next entry, a certain entry
				w, highest, lowest, foreign := newWorld(time.Second), 0, 2, false
				for i, c := 0, code; i < n; i, c = i+1, c/kinds {
					w.enter(fmt.Sprint(i), c%kinds%3, c%kinds == 3)
					highest, lowest, foreign = max(highest, c%kinds%3), min(lowest, c%kinds%3), foreign || c%kinds == 3
				}
				before := w.truth().Entries()
				request := Request{Token: before[0].CreateRevision}
				if target >= 0 {
					request.TargetKey, request.TargetRevision = before[target].Key, before[target].CreateRevision
				}
				if target >= -1 {
					w.requests = []Request{request}
				}
				void := target >= -1 && w.truth().CheckRequest(request) != nil
				what := fmt.Sprintf("%v request %+v", before, w.requests)
				w.settle(t)
				now := first(w.truth())
				require.Len(t, w.truth().Entries(), n, what)
				require.LessOrEqual(t, w.moved, 4*n, what)
				switch {
				case target >= 0 && !void:
					require.Equal(t, before[target].Key, now.Key, what)
					require.Equal(t, 1, w.handed, what)
				case target == -1 && !void:
					require.NotEqual(t, before[0].CreateRevision, now.CreateRevision, what)
					require.LessOrEqual(t, w.handed, 2, "and back, if it was the only preferred one: %s", what)
				case highest == lowest && !foreign:
					require.Zero(t, w.moved, what)
				default:
					require.LessOrEqual(t, w.handed, 1, what)
				}
				if !foreign {
					require.Equal(t, highest, now.Priority, what)
				}
			}
		}
	}
}

// Whatever each process knows, however late, and whichever entries come, go, request and withdraw, even with
// versions that let no entry pass: once all that ends, the queue settles.
func TestItSettlesWhateverWasKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(time.Second)
		priorities, old, seen := map[string]int{}, map[string]bool{}, map[string]int{}
		keys := []string{"a", "b", "c", "d", "e"}
		same := rapid.Bool().Draw(t, "all alike")
		for _, k := range keys {
			if !same {
				priorities[k] = rapid.IntRange(-1, 1).Draw(t, "priority")
			}
			old[k] = rapid.IntRange(0, 9).Draw(t, "old") == 0
		}
		asked := false
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			k := rapid.SampledFrom(keys).Draw(t, "who")
			_, stands := w.entry(k)
			switch do := rapid.IntRange(0, 9).Draw(t, "do"); {
			case do == 0 && stands:
				w.leave(k)
			case do < 3 && !stands:
				w.enter(k, priorities[k], false)
				seen[k] = 0
			case do == 3 && len(w.truth().Entries()) > 0:
				view := w.history[rapid.IntRange(1, len(w.history)-1).Draw(t, "asked at")]
				request := Request{Token: first(view).CreateRevision}
				if es := view.Entries(); len(es) > 0 && rapid.Bool().Draw(t, "for one") {
					e := rapid.SampledFrom(es).Draw(t, "target")
					request.TargetKey, request.TargetRevision = e.Key, e.CreateRevision
				}
				w.requests, asked = append(w.requests, request), true
			case do == 4 && len(w.requests) > 0:
				w.requests = slices.Delete(slices.Clone(w.requests), 0, 1)
			case do == 5:
				w.now = w.now.Add(w.after / 2)
			case !old[k]:
				seen[k] = rapid.IntRange(seen[k], len(w.history)-1).Draw(t, "knows")
				w.look(k, w.history[seen[k]])
			}
		}
		if same && !asked {
			require.Zero(t, w.moved, "equals never move each other")
		}
		w.handed, w.moved = 0, 0
		passes, highest := true, -1
		for _, k := range keys {
			e, stands := w.entry(k)
			passes = passes && !(stands && old[k])
			if stands {
				highest = max(highest, e.Priority)
			}
		}
		if !passes { // that version looks at nothing
			for i, q := range w.history {
				entries := slices.Clone(q.Entries())
				for j := range entries {
					entries[j].Foreign = entries[j].Foreign || old[entries[j].Key]
				}
				w.history[i] = Queue{revision: q.revision, entries: entries}
			}
		}
		w.settle(t)
		require.LessOrEqual(t, w.moved, 5*len(keys))
		require.LessOrEqual(t, w.handed, 3, "of a request, and once more by preference")
		if passes && len(w.truth().Entries()) > 0 {
			require.Equal(t, highest, first(w.truth()).Priority)
		}
	})
}

// A target that vanishes leaves the others as they are. One that comes and goes moves no entry.
func TestTargetsThatComeAndGo(t *testing.T) {
	w := newWorld(10 * time.Second)
	w.enter("a", 1, false)
	w.enter("b", 1, false)
	for range 20 {
		w.enter("c", 2, false)
		for range 9 {
			moved, _ := w.look("a", w.truth())
			require.False(t, moved)
			moved, again := w.look("b", w.truth())
			require.False(t, moved)
			require.Positive(t, again)
			w.now = w.now.Add(time.Second)
		}
		w.leave("c")
		w.look("a", w.truth())
	}
	require.Zero(t, w.moved)
	w.enter("c", 2, false)
	w.look("a", w.truth())
	w.look("b", w.truth())
	w.now = w.now.Add(10 * time.Second)
	moved, _ := w.look("a", w.truth())
	require.False(t, moved, "it is not next")
	moved, _ = w.look("b", w.truth())
	require.True(t, moved)
	stale := w.truth()
	w.leave("c")
	moved, _ = w.look("a", stale)
	require.True(t, moved)
	require.Equal(t, "b", first(w.truth()).Key)
	w.settle(t)
	require.Equal(t, "b", first(w.truth()).Key)
}

// calm makes all entries look at the real queue until none moves at this instant.
func (w *world) calm(t require.TestingT) {
	for range 100 {
		moved := false
		for _, e := range slices.Clone(w.truth().Entries()) {
			m, _ := w.look(e.Key, w.truth())
			moved = moved || m
		}
		if !moved {
			return
		}
	}
	require.Fail(t, "they move forever", "%v", w.truth().Entries())
}

// A candidate of the highest priority that comes and goes does not keep a steady one from leading: in a moment
// without it, the steady one has stood for long enough.
func TestSteadyTargetIsNotStarved(t *testing.T) {
	w := newWorld(10 * time.Second)
	w.enter("a", 0, false)
	w.enter("b", 0, false)
	w.enter("steady", 1, false)
	for range 3 {
		w.calm(t)
		w.enter("unsteady", 2, false)
		w.calm(t)
		w.now = w.now.Add(4 * time.Second)
		w.calm(t)
		require.Zero(t, w.moved, "the one has stood for too short, and the other is not the best")
		w.leave("unsteady")
	}
	w.calm(t)
	require.Equal(t, "steady", first(w.truth()).Key)
	require.Equal(t, 1, w.handed)
	require.Equal(t, 2, w.moved, "b, and the leader")
}

// The same with random candidates beside it: while no better one stands, a candidate that has stood for long
// enough leads, or one with the same priority.
func TestNothingStarvesASteadyTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(10 * time.Second)
		w.enter("leader", 0, false)
		w.enter("steady", 1, false)
		stands, since := int64(0), w.now
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch k := rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "who comes or goes"); {
			case k == "":
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
			case w.truth().indexOf(k) >= 0:
				w.leave(k)
			default:
				w.enter(k, rapid.IntRange(0, 2).Draw(t, "priority"), false)
			}
			w.calm(t)
			steady, _ := w.entry("steady")
			if steady.CreateRevision != stands {
				stands, since = steady.CreateRevision, w.now
			}
			better := slices.ContainsFunc(w.truth().Entries(), func(e Entry) bool { return e.Priority > steady.Priority })
			if !better && w.now.Sub(since) >= w.after {
				require.Equal(t, steady.Priority, first(w.truth()).Priority)
			}
		}
	})
}

func TestRequestesAreVoid(t *testing.T) {
	q := Queue{}.ApplyRead(20, []Entry{{Key: "a", CreateRevision: 1}, {Key: "x", CreateRevision: 2, Foreign: true},
		{Key: "b", CreateRevision: 3,
			Priority: 1}})
	for want, request := range map[error]Request{
		ErrLeaderChanged:          {Token: 2},
		lifecycle.ErrNotCandidate: {Token: 1, TargetKey: "b", TargetRevision: 2},
		lifecycle.ErrPreferred:    {Token: 1, TargetKey: "x", TargetRevision: 2},
		lifecycle.ErrOutsider:     {Token: 1, TargetKey: "b", TargetRevision: 3},
	} {
		require.ErrorIs(t, q.CheckRequest(request), want)
		require.Equal(t, request, ParseRequest(request.Encode()))
	}
	require.NoError(t, q.CheckRequest(Request{Token: 1}))
	require.ErrorIs(t, q.CheckRequest(Request{Token: 1, TargetKey: "a", TargetRevision: 1}), lifecycle.ErrNotCandidate,
		"who leads")
	require.ErrorIs(t, Queue{}.CheckRequest(Request{}), ErrLeaderChanged)
	require.Equal(t, Request{}, ParseRequest("x"))
	require.Equal(t, `{"format":1,"token":1}`, Request{Token: 1}.Encode())
	require.Equal(t, Request{}, ParseRequest(`{"format":2,"token":1}`), "of a newer release")
	require.ErrorIs(t, q.CheckRequest(ParseRequest("x")), ErrLeaderChanged)
}

func FuzzParseRequest(f *testing.F) {
	f.Add(Request{Token: 1, TargetKey: "/k", TargetRevision: 2}.Encode())
	f.Fuzz(func(t *testing.T, value string) {
		w := ParseRequest(value)
		require.Equal(t, w, ParseRequest(w.Encode()))
	})
}

// A request is obeyed at once. A process that knows only an earlier entry with the same key does nothing.
func TestLook(t *testing.T) {
	q := Queue{}.ApplyRead(20, []Entry{{Key: "a", CreateRevision: 1}, {Key: "b", CreateRevision: 2},
		{Key: "c", CreateRevision: 3, Priority: 1}})
	request, now := []Request{{Token: 1, TargetKey: "c", TargetRevision: 3}}, time.Unix(1, 0)
	_, giveWay, again := PreferredSince{}.MustGiveWay(q, "b", 2, request, time.Second, now)
	require.True(t, giveWay)
	require.Zero(t, again)
	_, giveWay, again = PreferredSince{}.MustGiveWay(q, "b", 9, request, time.Second, now)
	require.False(t, giveWay)
	require.Zero(t, again)
	y, giveWay, again := PreferredSince{}.MustGiveWay(q, "b", 2, nil, time.Second, now)
	require.False(t, giveWay)
	require.Equal(t, time.Second, again)
	_, giveWay, _ = y.MustGiveWay(q, "b", 2, nil, time.Second, now.Add(time.Second))
	require.True(t, giveWay)
}
