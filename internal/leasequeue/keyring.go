package leasequeue

import (
	"strings"

	"github.com/goverse/goverse/internal/state"
)

// keyring chooses keys for new entries, and holds the reserved keys that no entry uses. The caller
// of each method holds Engine.mu.
type keyring struct {
	number int64          // last number used beyond sameName
	barred map[string]int // number of requests in flight that may still write or delete the key
	// unconfirmed holds barred keys that may exist in etcd and will not be put any more.
	unconfirmed []string
}

func newKeyring() keyring { return keyring{barred: map[string]int{}} }

// sameName limits the entries of one name that reuse the smallest free numbers.
const sameName = 64

// free returns a key that is free, and its queue. It prefers keys used before: etcd keeps a trace of each key
// until it compacts, and steps over all traces when it reads a queue. A key is free once it is known to be
// absent from etcd. The caller holds Engine.mu.
func (r *run) free(x *Entry) (key, queue string) {
	keys, traits := x.q.keysOf(x.Request), state.Traits{Shared: x.Shared, Priority: x.Priority}
	for number := int64(1); ; number++ {
		if number > sameName {
			r.keyring.number++
			number = sameName + r.keyring.number
		}
		key = keys.Entry(x.Name, int64(r.s.ID()), number, traits)
		if r.entries[key] == nil && r.keyring.barred[key] == 0 {
			return key, key[:strings.LastIndexByte(key, '/')+1]
		}
	}
}

// bar reserves the key until it is unbarred.
func (k *keyring) bar(key string) { k.barred[key]++ }

// unbar records that no request in flight can write or delete these keys any more. A key that was to be put may
// exist; it stays reserved until a read shows that it is absent.
func (k *keyring) unbar(resolved []op) {
	for _, o := range resolved {
		if o.enter {
			k.unconfirmed = append(k.unconfirmed, o.entry.key)
		} else {
			k.unbarOne(o.entry.key)
		}
	}
}

// unbarOne removes one of the reasons for which the key is barred.
func (k *keyring) unbarOne(key string) {
	if k.barred[key]--; k.barred[key] == 0 {
		delete(k.barred, key)
	}
}

// takeUnconfirmed removes and returns the unconfirmed keys. The caller must pass each to confirmed.
func (k *keyring) takeUnconfirmed() []string {
	keys := k.unconfirmed
	k.unconfirmed = nil
	return keys
}

// confirmed records whether the key is known to be absent from etcd.
func (k *keyring) confirmed(key string, gone bool) {
	if gone {
		k.unbarOne(key)
	} else {
		k.unconfirmed = append(k.unconfirmed, key)
	}
}
