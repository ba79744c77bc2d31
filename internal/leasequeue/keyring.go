package leasequeue

import (
	"strings"

	"github.com/goverse/goverse/internal/state"
)

// keyring knows which keys nobody gets at present though no entry has them. All with the engine's lock held.
type keyring struct {
	number int64          // the last that was drawn, where the least were not free
	barred map[string]int // by how many requests may still write or delete them
	// unconfirmed are barred keys that stand or do not, and will not be put any more.
	unconfirmed []string
}

func newKeyring() keyring { return keyring{barred: map[string]int{}} }

// sameName is up to how many entries of one name use the least numbers that are free.
const sameName = 64

// free is a key that no entry has, and its queue. Those that were used before are preferred: etcd keeps a
// trace of each key that ever was, until it compacts, and steps over them when it reads a
// queue. A key is free when it is known that etcd has it no more. The lock is held.
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

// bar keeps a key from being given out, until unbar.
func (k *keyring) bar(key string) { k.barred[key]++ }

// unbar: no request is under way any more that writes or deletes these keys. One that was to be
// put may have been, unknown to us: it is free when it was seen that it was not.
func (k *keyring) unbar(resolved []op) {
	for _, o := range resolved {
		if o.enter {
			k.unconfirmed = append(k.unconfirmed, o.entry.key)
		} else {
			k.unbarOne(o.entry.key)
		}
	}
}

// unbarOne is unbar for one reason out of all.
func (k *keyring) unbarOne(key string) {
	if k.barred[key]--; k.barred[key] == 0 {
		delete(k.barred, key)
	}
}

// takeUnconfirmed are the unconfirmed ones, which are confirmed now, or put back.
func (k *keyring) takeUnconfirmed() []string {
	keys := k.unconfirmed
	k.unconfirmed = nil
	return keys
}

// confirmed: the key is not in etcd, or that is not known.
func (k *keyring) confirmed(key string, gone bool) {
	if gone {
		k.unbarOne(key)
	} else {
		k.unconfirmed = append(k.unconfirmed, key)
	}
}
