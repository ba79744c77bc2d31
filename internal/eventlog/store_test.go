package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

func keysUnder(t *testing.T, prefix string) state.Keys {
	t.Helper()
	keys, err := state.NewKeys(prefix)
	require.NoError(t, err)
	return keys
}

func list(t *testing.T, kv clientv3.KV, keys state.Keys, q event.Query) []event.Event {
	t.Helper()
	log, err := List(etcdtest.Context(t), kv, keys, q)
	require.NoError(t, err)
	return log.Events
}

func TestStore(t *testing.T) {
	client, keys, ctx := etcdtest.Client(t), keysUnder(t, "/g"), etcdtest.Context(t)
	began := time.Now().Add(-time.Hour).UTC().Round(time.Millisecond)
	make := func(i int) event.Event {
		return event.Event{ID: fmt.Sprintf("node_joined-%d", i), Type: event.NodeJoined, Node: "a:1", Revision: int64(i),
			Time: began.Add(time.Duration(i) * time.Second)}
	}
	var all []event.Event
	for i := range 100 {
		all = append(all, make(i+1))
	}
	for from := 0; from < len(all); from += maxBatch {
		require.NoError(t, recordEvents(ctx, client, keys, all[from:min(from+maxBatch, len(all))]))
	}
	again := make(7)
	again.Node = "other:1"
	require.NoError(t, recordEvents(ctx, client, keys, []event.Event{again}))
	stored, err := client.Get(ctx, keys.Event(all[0].ID))
	require.NoError(t, err)
	require.Contains(t, string(stored.Kvs[0].Value), `{"format":1,`)
	got := list(t, client, keys, event.Query{})
	require.Len(t, got, 100)
	require.Equal(t, "a:1", got[6].Node, "it is recorded once, as it was first")
	for i, e := range got {
		require.NotZero(t, e.Seq)
		e.Seq = 0
		require.Equal(t, all[i], e)
	}

	require.Len(t, list(t, client, keys, event.Query{Since: all[90].Time}), 10)
	for after, n := range map[int64]int{math.MinInt64: 100, -1: 100, got[99].Seq - 1: len(all) % maxBatch,
		got[99].Seq: 0, math.MaxInt64 - 1: 0, math.MaxInt64: 0} {
		require.Len(t, list(t, client, keys, event.Query{After: after}), n, after)
	}
	newest, err := List(ctx, client, keys, event.Query{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, all[99].ID, newest.Events[0].ID)
	require.True(t, newest.More, "older ones were left out")
	later := list(t, client, keys, event.Query{After: got[95].Seq})
	require.Less(t, len(later), 100)
	for _, e := range later {
		require.Greater(t, e.Seq, got[95].Seq)
	}
	require.Empty(t, list(t, client, keys, event.Query{After: newest.Events[0].Seq}))

	for key, value := range map[string]string{"foreign": "{", "typeless": "{}",
		"newer": `{"format":2,"type":"node_joined"}`, "long": strings.Repeat("x", maxEventSize+1)} {
		_, err := client.Put(ctx, keys.Event(key), value)
		require.NoError(t, err)
	}
	log, err := List(ctx, client, keys, event.Query{})
	require.NoError(t, err)
	require.Len(t, log.Events, 100)
	require.Equal(t, 4, log.Skipped)
	require.False(t, log.More)

	require.NoError(t, pruneEvents(ctx, client, keys, keys.Events(), 53, began))
	require.Equal(t, all[51].ID, list(t, client, keys, event.Query{})[0].ID, "the four that are no events count, too")
	require.NoError(t, pruneEvents(ctx, client, keys, keys.Events(), 1000, all[89].Time.Add(time.Millisecond)))
	require.Equal(t, all[90].ID, list(t, client, keys, event.Query{})[0].ID)
	resp, err := client.Get(ctx, keys.Events(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.EqualValues(t, 14, resp.Count, "what cannot be read has no age")
}

// Recorded reasons of any length can be read back by the node that recorded them, by other nodes, and after a
// restart.
func TestLongReasonsAreReadByAll(t *testing.T) {
	keys, ctx := keysUnder(t, "/g"), etcdtest.Context(t)
	client := etcdtest.Client(t)
	for i, reason := range []string{"short", strings.Repeat("x", maxEventSize), strings.Repeat("\x01", 2*maxEventSize),
		strings.Repeat("ü", maxEventSize)} {
		e := event.Event{ID: fmt.Sprintf("node_removed-%d", i), Type: event.NodeRemoved, Revision: int64(i + 1),
			Reason: reason, Time: time.Now().UTC()}
		require.NoError(t, recordEvents(ctx, client, keys, []event.Event{e}))
		log, err := List(ctx, client, keys, event.Query{})
		require.NoError(t, err)
		require.Zero(t, log.Skipped)
		require.Len(t, log.Events, i+1)
		require.Equal(t, reason[:5], log.Events[i].Reason[:5])
	}
}

// Follow continues at its position when etcd's watch breaks, and ignores values that are not events.
func TestFollow(t *testing.T) {
	server := etcdtest.Start(t)
	client, keys, ctx := server.Client(), keysUnder(t, "/f"), etcdtest.Context(t)
	put := func(i int) {
		require.NoError(t, recordEvents(ctx, client, keys, []event.Event{{ID: fmt.Sprint(i), Type: event.NodeLeft,
			Time: time.Now()}}))
	}
	put(1)
	put(2)
	enough := errors.New("enough")
	got, ended := make(chan event.Event), make(chan error)
	go func() {
		ended <- Follow(ctx, client, keys, 0, func(e event.Event) error {
			got <- e
			if e.ID == "9" {
				return enough
			}
			return nil
		})
	}()
	require.Equal(t, "1", (<-got).ID)
	second := <-got
	require.Equal(t, "2", second.ID)
	_, err := client.Put(ctx, keys.Event("foreign"), "no event")
	require.NoError(t, err)
	put(3)
	require.Equal(t, "3", (<-got).ID)
	_, err = client.Put(ctx, keys.Event("3"), `{"type":"node_left"}`)
	require.NoError(t, err, "an event is created once; this is somebody's hand")
	put(9)
	require.Equal(t, "9", (<-got).ID)
	require.ErrorIs(t, <-ended, enough)

	var ids []string
	require.ErrorIs(t, Follow(ctx, client, keys, second.Seq, func(e event.Event) error {
		if ids = append(ids, e.ID); e.ID == "9" {
			return enough
		}
		return nil
	}), enough)
	require.Equal(t, []string{"3", "9"}, ids)

	ended2, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, Follow(ended2, client, keys, 0, func(event.Event) error { return nil }))
}

// Events of one transaction are marked as such, whether they are read or watched: a follower that has seen the
// first, and continues after its Seq, would miss the second.
func TestFollowSaysWhatIsRecordedTogether(t *testing.T) {
	client, keys, ctx := etcdtest.Client(t), keysUnder(t, "/t"), etcdtest.Context(t)
	together := func(ids ...string) {
		var events []event.Event
		for _, id := range ids {
			events = append(events, event.Event{ID: id, Type: event.NodeLeft, Time: time.Now()})
		}
		require.NoError(t, recordEvents(ctx, client, keys, events))
	}
	together("1", "2")
	together("3")
	enough := errors.New("enough")
	var got []string
	seqs := map[int64]bool{}
	require.ErrorIs(t, Follow(ctx, client, keys, 0, func(e event.Event) error {
		got = append(got, fmt.Sprint(e.ID, e.More))
		seqs[e.Seq] = true
		switch e.ID {
		case "3":
			together("4", "5", "6") // written after the read, so these are watched
		case "6":
			return enough
		}
		return nil
	}), enough)
	require.Equal(t, []string{"1true", "2false", "3false", "4true", "5true", "6false"}, got)
	require.Len(t, seqs, 3)
}

func FuzzDecode(f *testing.F) {
	f.Add("/g/events/node_joined-1", []byte(`{"id":"x","type":"node_joined","time":"2026-01-02T03:04:05Z","node":"a:1"}`))
	f.Add("/g/events/", []byte(`{}`))
	f.Add("/g/event", []byte(`[`))
	keys, err := state.NewKeys("/g")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		e, err := decodeEvent(keys, key, value, 7)
		if err != nil {
			require.ErrorIs(t, err, state.ErrBadRecord)
			return
		}
		require.Equal(t, key, keys.Event(e.ID))
		require.EqualValues(t, 7, e.Seq)
		require.NotEmpty(t, e.Type)
	})
}

// Events that the log has, or had and deleted, are not recorded again by the next recorder.
func TestMissing(t *testing.T) {
	horizon := time.Now().Add(-time.Hour)
	at := func(revision int64, after time.Duration, own bool) pendingEvent {
		return pendingEvent{Event: event.Event{ID: fmt.Sprint(revision), Revision: revision, Time: horizon.Add(after)},
			own: own}
	}
	all := func() []pendingEvent {
		return []pendingEvent{at(1, time.Minute, false), at(2, -time.Minute, false), at(3, time.Minute, false),
			at(4, time.Minute, false), at(5, -time.Minute, true)}
	}
	ids := func(some []pendingEvent) (out []string) {
		for _, p := range some {
			out = append(out, p.ID)
		}
		return out
	}
	log := []event.Event{{ID: "3", Revision: 3}}
	require.Equal(t, []string{"1", "4", "5"}, ids(missingEvents(all(), log, 10, horizon)), "it is not full")
	require.Equal(t, []string{"4", "5"}, ids(missingEvents(all(), log, 1, horizon)), "it is, so 1 was deleted")
	require.Equal(t, []string{"1", "3", "4", "5"}, ids(missingEvents(all(), nil, 10, horizon)))
}
