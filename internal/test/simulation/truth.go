package simulation

import (
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/internal/state"
)

// truth is what etcd holds, as the checks follow it change by change.
type truth struct {
	keys     state.Keys
	held     map[string]*mvccpb.KeyValue
	queue    map[string]*mvccpb.KeyValue // those of them that queue
	revision int64
}

func newTruth(keys state.Keys) truth {
	return truth{keys: keys, held: map[string]*mvccpb.KeyValue{}, queue: map[string]*mvccpb.KeyValue{}}
}

func (t *truth) changed(now, before *mvccpb.KeyValue, parsed state.ParsedKey) {
	key := ""
	if now != nil {
		key = string(now.Key)
		t.held[key] = now
		t.revision = now.ModRevision
	} else {
		key = string(before.Key)
		delete(t.held, key)
	}
	if parsed.Kind == state.KindCandidate {
		if now != nil {
			t.queue[key] = now
		} else {
			delete(t.queue, key)
		}
	}
}

// get is a key, nil if it is not there.
func (t *truth) get(key string) *mvccpb.KeyValue { return t.held[key] }

// created reports whether a key is there that was created at a revision.
func (t *truth) created(key string, revision int64) bool {
	kv := t.held[key]
	return kv != nil && kv.CreateRevision == revision
}

// head is the first candidate's key, nil when there is none.
func (t *truth) head() *mvccpb.KeyValue {
	var head *mvccpb.KeyValue
	for _, kv := range t.queue {
		if head == nil || kv.CreateRevision < head.CreateRevision {
			head = kv
		}
	}
	return head
}
