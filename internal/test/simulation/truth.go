package simulation

import (
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/goverse/goverse/internal/state"
)

// etcdState is the content of etcd, updated with every change.
type etcdState struct {
	keys     state.Keys
	held     map[string]*mvccpb.KeyValue
	queue    map[string]*mvccpb.KeyValue // the candidates' keys among them
	revision int64
}

func newEtcdState(keys state.Keys) etcdState {
	return etcdState{keys: keys, held: map[string]*mvccpb.KeyValue{}, queue: map[string]*mvccpb.KeyValue{}}
}

func (t *etcdState) applyChange(now, before *mvccpb.KeyValue, parsed state.ParsedKey) {
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

// getKey returns a key, or nil if it does not exist.
func (t *etcdState) getKey(key string) *mvccpb.KeyValue { return t.held[key] }

// keyExists reports whether a key with that CreateRevision exists.
func (t *etcdState) keyExists(key string, revision int64) bool {
	kv := t.held[key]
	return kv != nil && kv.CreateRevision == revision
}

// firstCandidate returns the first candidate's key, or nil if there is none.
func (t *etcdState) firstCandidate() *mvccpb.KeyValue {
	var head *mvccpb.KeyValue
	for _, kv := range t.queue {
		if head == nil || kv.CreateRevision < head.CreateRevision {
			head = kv
		}
	}
	return head
}
