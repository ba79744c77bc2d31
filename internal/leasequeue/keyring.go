package leasequeue

import (
	"strings"

	"github.com/goverse/goverse/internal/state"
)

// keyring chooses keys for new entries, and holds the reserved keys that no entry uses. The caller
// of each method holds Engine.mu.
type keyring struct {
	lastNumber int64          // last number used beyond maxReusedNumbers
	barred     map[string]int // number of requests in flight that may still write or delete the key
	// unconfirmed holds barred keys that may exist in etcd and will not be put any more.
	unconfirmed []string
}

func newKeyring() keyring { return keyring{barred: map[string]int{}} }

// maxReusedNumbers limits the entries of one name that reuse the smallest free numbers.
const maxReusedNumbers = 64

// chooseKey returns a key that is free, and its queue. It prefers keys used before: etcd keeps a trace of each key
// until it compacts, and steps over all traces when it reads a queue. A key is free once it is known to be
// absent from etcd. The caller holds Engine.mu.
func (r *sessionRun) chooseKey(x *Entry) (key, queue string) {
	keys, traits := x.q.keysOf(x.Request), state.EntryTraits{Shared: x.Shared, Priority: x.Priority}
	for number := int64(1); ; number++ {
		if number > maxReusedNumbers {
			r.keyring.lastNumber++
			number = maxReusedNumbers + r.keyring.lastNumber
		}
		key = keys.EntryKey(x.Name, int64(r.session.ID()), number, traits)
		if r.entries[key] == nil && r.keyring.barred[key] == 0 {
			return key, key[:strings.LastIndexByte(key, '/')+1]
		}
	}
}

// barKey reserves the key until it is unbarred.
func (k *keyring) barKey(key string) { k.barred[key]++ }

// unbarResolved records that no request in flight can write or delete these keys any more. A key that was to be put may
// exist; it stays reserved until a read shows that it is absent.
func (k *keyring) unbarResolved(resolved []queueOp) {
	for _, o := range resolved {
		if o.creates {
			k.unconfirmed = append(k.unconfirmed, o.entry.key)
		} else {
			k.unbarKey(o.entry.key)
		}
	}
}

// unbarKey removes one of the reasons for which the key is barred.
func (k *keyring) unbarKey(key string) {
	if k.barred[key]--; k.barred[key] == 0 {
		delete(k.barred, key)
	}
}

// takeUnconfirmed removes and returns the unconfirmed keys. The caller must pass each to confirmAbsence.
func (k *keyring) takeUnconfirmed() []string {
	keys := k.unconfirmed
	k.unconfirmed = nil
	return keys
}

// confirmAbsence records whether the key is known to be absent from etcd.
func (k *keyring) confirmAbsence(key string, gone bool) {
	if gone {
		k.unbarKey(key)
	} else {
		k.unconfirmed = append(k.unconfirmed, key)
	}
}
