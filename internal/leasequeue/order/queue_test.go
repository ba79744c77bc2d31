package order

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWhoHolds(t *testing.T) {
	for order, want := range map[string]string{
		"":     "",
		"X":    "X",
		"XX":   "X-",
		"XS":   "X-",
		"S":    "S",
		"SS":   "SS",
		"SSXS": "SS--",
		"SX":   "S-",
	} {
		var entries []Entry
		for i, kind := range order {
			entries = append(entries, Entry{Key: fmt.Sprint(i), CreateRevision: int64(10 + i), Shared: kind == 'S'})
		}
		slices.Reverse(entries)
		q, got := Queue{}.ApplyRead(20, entries), ""
		for i, kind := range order {
			if q.HoldsLock(fmt.Sprint(i)) {
				got += string(kind)
			} else {
				got += "-"
			}
		}
		require.Equal(t, want, got, order)
	}
	require.False(t, Queue{}.Known())
	require.False(t, Queue{}.ApplyRead(5, nil).HasEntry("0", 10))
	require.True(t, Queue{}.ApplyRead(5, nil).Known())
}

// Whenever the queue was read, and however often and late events are reported: after all events up to a
// revision, the queue is as it was in etcd at that revision.
func TestFoldedIsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			revision int64
			deleted  bool
			entry    Entry
		}
		truth, history, events := []Entry{}, map[int64][]Entry{0: {}}, []event{}
		last := rapid.Int64Range(1, 30).Draw(t, "revisions")
		for r := int64(1); r <= last; r++ {
			for range rapid.IntRange(0, 2).Draw(t, "events at once") {
				key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")
				i := slices.IndexFunc(truth, func(e Entry) bool { return e.Key == key })
				if slices.ContainsFunc(events, func(ev event) bool { return ev.revision == r && ev.entry.Key == key }) {
					continue // etcd allows one change of a key per revision
				}
				if i >= 0 {
					truth = slices.Delete(slices.Clone(truth), i, i+1)
					events = append(events, event{r, true, Entry{Key: key}})
				} else {
					e := Entry{Key: key, CreateRevision: r, Shared: rapid.Bool().Draw(t, "shared")}
					truth = append(slices.Clone(truth), e)
					events = append(events, event{r, false, e})
				}
			}
			history[r] = truth
		}
		read := rapid.Int64Range(1, last).Draw(t, "read at")
		q := Queue{}.ApplyRead(read, history[read])
		// The watch was opened before the read, so it reports older events too.
		from := rapid.Int64Range(0, read).Draw(t, "watched from")
		for _, ev := range events {
			if ev.revision <= from {
				continue
			}
			if ev.deleted {
				q = q.Delete(ev.revision, ev.entry.Key)
			} else {
				q = q.Put(ev.revision, ev.entry)
			}
			if !slices.ContainsFunc(events, func(x event) bool { return x.revision == ev.revision && x != ev }) {
				q = q.AdvanceTo(ev.revision)
			}
		}
		want := Queue{}.ApplyRead(last+1, history[last]).Entries()
		if len(want) == 0 {
			require.Empty(t, q.Entries())
			return
		}
		require.Equal(t, want, q.Entries())
	})
}
