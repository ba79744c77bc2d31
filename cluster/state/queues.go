package state

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/goverse/goverse/cluster/sharding"
)

// ErrBadName is wrapped by the errors of [CheckName].
var ErrBadName = errors.New("bad name")

// maxName is far below what etcd takes, and long enough for a path.
const maxName = 512

// CheckName reports what is wrong with a name that a user gives to a lock, an election
// or an effect: it is to be from 1 to 512 bytes long; any bytes will do.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%w: it has %d bytes; give it from 1 to %d", ErrBadName, len(name), maxName)
	}
	return nil
}

// buckets is into how many ranges the queues under one root are parted, so that who
// waits in one queue is told of a small share of all the others.
const buckets = 256

// Queues builds and parses the keys of many queues under one root, each with a name of
// its own. They lie outside the range that every node watches. The zero value is not
// usable; see [Keys.Locks].
//
//	<root>/<bucket>/<name>/<lease>-<number>[-shared]
type Queues struct{ root string }

// Locks are the queues of those who hold a lock or wait for it.
func (k Keys) Locks() Queues { return Queues{k.prefix + "/work/locks/"} }

// Elections are the queues of the named elections' candidates.
func (k Keys) Elections() Queues { return Queues{k.prefix + "/elections/"} }

// Root is the prefix of all keys, with its slash.
func (q Queues) Root() string { return q.root }

// Bucket is the prefix of all keys in the bucket of a name, with its slash.
func (q Queues) Bucket(name string) string {
	const hex = "0123456789abcdef"
	n := sharding.Of(name, buckets)
	return q.root + string([]byte{hex[n>>4], hex[n&15], '/'})
}

// Queue is the prefix of all keys in the queue of that name, with its slash.
func (q Queues) Queue(name string) string { return q.Bucket(name) + url.PathEscape(name) + "/" }

// Entry is the key of the entry with that number, from 1 up, of a session's. It says of
// itself whether it shares what the queue is about with others.
func (q Queues) Entry(name string, lease, number int64, shared bool) string {
	key := q.Queue(name) + strconv.FormatInt(lease, 16) + "-" + strconv.FormatInt(number, 16)
	if shared {
		key += sharedSuffix
	}
	return key
}

// SharedEntry reports whether an entry's key says that it shares. One that others wrote by
// their own rules does not.
func SharedEntry(key string) bool { return strings.HasSuffix(key, sharedSuffix) }

const sharedSuffix = "-shared"

// Batches is the key that counts what was written on a session's lease. It is in no bucket.
func (q Queues) Batches(lease int64, lane int) string {
	return fmt.Sprintf("%sbatches/%x-%x", q.root, lease, lane)
}

// QueueOf is the prefix of the queue that an entry's key lies in; false if it is the key of
// none. Whoever wrote it, and whatever stands after the last slash.
func (q Queues) QueueOf(key string) (queue string, ok bool) {
	rest, ok := strings.CutPrefix(key, q.root)
	if !ok {
		return "", false
	}
	bucket, rest, _ := strings.Cut(rest, "/")
	escaped, id, ok := strings.Cut(rest, "/")
	if !ok || id == "" {
		return "", false
	}
	name, ok := unescape(escaped)
	if n, err := strconv.ParseUint(bucket, 16, 8); !ok || err != nil || int(n) != sharding.Of(name, buckets) || len(bucket) != 2 {
		return "", false
	}
	return key[:len(key)-len(id)], true
}

// Effects are the queues of those who want to run an effect.
func (k Keys) Effects() Queues { return Queues{k.prefix + "/work/effects/"} }

// EffectMark is the key that says what became of an effect. It lies in none of the queues.
func (k Keys) EffectMark(name string) string {
	return k.prefix + "/work/marks/" + url.PathEscape(name)
}
