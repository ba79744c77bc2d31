//go:build unix

package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// writeAnswer is the answer of examples/controller to a write, which it also stores in etcd in the same
// transaction.
type writeAnswer struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Done  string `json:"done"`
	Node  string `json:"node"`
	Token int64  `json:"token"`
}

// document is the value that the tests write: it names its write.
type document struct {
	ID string `json:"id"`
}

// writeHistory records the changes in etcd since it was opened, of the election's queue and of the data.
type writeHistory struct {
	queue, data string
	mu          sync.Mutex
	events      []*clientv3.Event
	revision    int64
}

// recordWrites starts a history of all keys under queue and data.
func recordWrites(t *testing.T, client *clientv3.Client, queue, data string) *writeHistory {
	h := &writeHistory{queue: queue, data: data}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	watch := client.Watch(clientv3.WithRequireLeader(ctx), "/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-watch
	go func() {
		defer close(ended)
		for resp := range watch {
			h.mu.Lock()
			h.events = append(h.events, resp.Events...)
			h.revision = max(h.revision, resp.Header.Revision)
			h.mu.Unlock()
		}
	}()
	return h
}

// eventsToNow waits until the history includes the present, and returns it.
func (h *writeHistory) eventsToNow(t *testing.T, client *clientv3.Client) []*clientv3.Event {
	t.Helper()
	resp, err := client.Put(t.Context(), "/the-end", "") // the event to wait for
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.revision >= resp.Header.Revision
	}, patience, 5*time.Millisecond)
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// candidacyPeriod is the period in which a candidate's key exists in etcd.
type candidacyPeriod struct {
	node        string
	create, end int64 // end is 0 if the key still exists
}

func (s candidacyPeriod) at(revision int64) bool {
	return s.create <= revision && (s.end == 0 || revision < s.end)
}

// judgeWrites returns the faults in a history. acknowledged holds the answers that clients got, by id. Each
// acknowledged write must have been carried out once, as answered. Each write must have been carried out by the
// leader at that revision, under its token. Tokens must grow.
func judgeWrites(events []*clientv3.Event, queue, data string, acknowledged map[string]writeAnswer) error {
	var wrong []error
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	queued := map[string]*candidacyPeriod{}
	var stays []*candidacyPeriod
	type applied struct {
		answer   writeAnswer
		revision int64
	}
	var writes []applied
	byID, documents := map[string]applied{}, map[string]int64{}
	for _, e := range events {
		key, revision := string(e.Kv.Key), e.Kv.ModRevision
		switch {
		case strings.HasPrefix(key, queue) && e.Type == mvccpb.DELETE:
			if s := queued[key]; s != nil {
				s.end = revision
				delete(queued, key)
			}
		case strings.HasPrefix(key, queue) && queued[key] == nil:
			queued[key] = &candidacyPeriod{node: string(e.Kv.Value), create: e.Kv.CreateRevision}
			stays = append(stays, queued[key])
		case strings.HasPrefix(key, data+"writes/") && e.Type == mvccpb.PUT:
			var a writeAnswer
			if err := json.Unmarshal(e.Kv.Value, &a); err != nil {
				say("%s is no answer: %w", key, err)
				continue
			}
			if before, twice := byID[a.ID]; twice {
				say("write %s took effect twice: at revisions %d and %d", a.ID, before.revision, revision)
			}
			byID[a.ID] = applied{a, revision}
			writes = append(writes, byID[a.ID])
		case strings.HasPrefix(key, data+"configs/") && e.Type == mvccpb.PUT:
			var d document
			if err := json.Unmarshal(e.Kv.Value, &d); err != nil {
				say("%s is no document: %w", key, err)
				continue
			}
			if before, twice := documents[d.ID]; twice {
				say("the document of write %s was put twice: at revisions %d and %d", d.ID, before, revision)
			}
			documents[d.ID] = revision
		}
	}
	last := int64(0)
	for _, w := range writes {
		if w.answer.Token < last {
			say("write %s, revision %d: token %d after %d", w.answer.ID, w.revision, w.answer.Token, last)
		}
		last = max(last, w.answer.Token)
		leader := leaderAt(stays, w.revision)
		if leader == nil || leader.create != w.answer.Token || leader.node != w.answer.Node {
			say("write %s, revision %d, was carried out by %s under token %d; the leader was %+v", w.answer.ID, w.revision,
				w.answer.Node, w.answer.Token, leader)
		}
		if put := documents[w.answer.ID]; w.answer.Done != "deleted" && put != w.revision {
			say("write %s, revision %d: its document was put at %d", w.answer.ID, w.revision, put)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(acknowledged)) {
		switch a, there := byID[id]; {
		case !there:
			say("write %s was acknowledged, and not carried out", id)
		case a.answer != acknowledged[id]:
			say("write %s was acknowledged as %+v, and carried out as %+v", id, acknowledged[id], a.answer)
		}
	}
	return errors.Join(wrong...)
}

// leaderAt returns the first candidate in the queue just before a revision was written, or nil.
func leaderAt(stays []*candidacyPeriod, revision int64) *candidacyPeriod {
	there := slices.DeleteFunc(slices.Clone(stays), func(s *candidacyPeriod) bool { return !s.at(revision) })
	if len(there) == 0 {
		return nil
	}
	return slices.MinFunc(there, func(a, b *candidacyPeriod) int { return cmp.Compare(a.create, b.create) })
}
