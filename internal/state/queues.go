package state

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/goverse/goverse/cluster/shard"
	"github.com/goverse/goverse/internal/lifecycle"
)

// maxName is far below what etcd takes, and long enough for a path.
const maxName = 512

// CheckName reports what is wrong with a name that a user gives to what is said, a lock, an election
// or an effect: it is to be from 1 to 512 bytes long; any bytes will do.
func CheckName(what, name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%w for the %s: it has %d bytes; give it from 1 to %d",
			lifecycle.ErrBadName, what, len(name), maxName)
	}
	return nil
}

// buckets is into how many ranges the queues under one root are parted, so that who
// waits in one queue hears of a small share of all the others.
const buckets = 256

// Queues builds and parses the keys of many queues under one root, each with a name of
// its own. They lie outside the range that every node watches. The zero value is not
// usable; see [Keys.Locks].
//
//	<root>/<bucket>/<name>/<lease>-<number>[-priority<n>][-shared]
//	<root>/<bucket>/!<name>/<lease>-<number>
//
// The latter is a request about a queue. No name, escaped, begins with a '!'.
type Queues struct{ root, mark string }

// Locks are the queues of those who hold a lock or wait for it.
func (k Keys) Locks() Queues { return Queues{root: k.prefix + "/work/locks/"} }

// Elections are the queues of the named elections' candidates.
func (k Keys) Elections() Queues { return Queues{root: k.prefix + "/elections/"} }

// Requests are the queues of the requests about these queues, each in the bucket of what it is
// about.
func (q Queues) Requests() Queues { return Queues{q.root, requestMark} }

const requestMark = "!"

// RequestsIn is the prefix of all requests in the bucket with that prefix.
func (q Queues) RequestsIn(bucket string) string { return bucket + requestMark }

// Root is the prefix of all keys, with its slash.
func (q Queues) Root() string { return q.root }

// Bucket is the prefix of all keys in the bucket of a name, with its slash.
func (q Queues) Bucket(name string) string { return string(q.appendBucket(nil, name)) }

func (q Queues) appendBucket(to []byte, name string) []byte {
	const hex = "0123456789abcdef"
	n := shard.Of(name, buckets)
	return append(append(to, q.root...), hex[n>>4], hex[n&15], '/')
}

// BucketOf is the prefix of all keys in the bucket that a queue or an entry of these lies in: a
// part of the key, and so nothing is copied.
func (q Queues) BucketOf(key string) string { return key[:len(q.root)+len("ff/")] }

// Queue is the prefix of all keys in the queue of that name, with its slash.
func (q Queues) Queue(name string) string { return string(q.appendQueue(nil, name)) }

func (q Queues) appendQueue(to []byte, name string) []byte {
	to = append(q.appendBucket(to, name), q.mark...)
	return append(append(to, url.PathEscape(name)...), '/')
}

// Traits is what an entry's key says of it, so that who sees keys alone knows.
type Traits struct {
	// Shared: it shares what the queue is about with others.
	Shared bool
	// Priority is how much it is preferred, 0 if nothing is said.
	Priority int
	// Own: a process of ours wrote it. Keys are made with it, whatever is said here.
	Own bool
}

// Entry is the key of the entry with that number, from 1 up, of a session's.
func (q Queues) Entry(name string, lease, number int64, t Traits) string {
	var short [128]byte // so that few keys are copied twice
	key := q.appendQueue(short[:0], name)
	key = append(strconv.AppendInt(key, lease, 16), '-')
	key = strconv.AppendInt(key, number, 16)
	if t.Priority != 0 {
		key = strconv.AppendInt(append(key, prioritySuffix...), int64(t.Priority), 10)
	}
	if t.Shared {
		key = append(key, sharedSuffix...)
	}
	return string(key)
}

const sharedSuffix, prioritySuffix = "-shared", "-priority"

// TraitsOf is what an entry's key says. One that others wrote by their own rules is not
// preferred.
func TraitsOf(key string) Traits {
	id, shared := strings.CutSuffix(key[strings.LastIndexByte(key, '/')+1:], sharedSuffix)
	id, said, preferred := strings.Cut(id, prioritySuffix)
	lease, number, _ := strings.Cut(id, "-")
	t := Traits{Shared: shared, Own: parseLease(lease) != 0 && parseLease(number) != 0} // spelled alike
	if !t.Own || !preferred {
		return t
	}
	priority, err := strconv.Atoi(said)
	if err != nil || priority == 0 || strconv.Itoa(priority) != said {
		return Traits{Shared: shared}
	}
	t.Priority = priority
	return t
}

// Batches is the key that counts what was written on a session's lease. It is in no bucket.
func (q Queues) Batches(lease int64, lane int) string {
	return fmt.Sprintf("%sbatches/%x-%x", q.root, lease, lane)
}

// QueueOf is the prefix of the queue that an entry's key lies in, or a request's; false if it is
// the key of none. Whatever wrote it, and whatever stands after the last slash.
func (q Queues) QueueOf(key string) (queue string, ok bool) {
	queue, _, _, ok = q.parse(key)
	return queue, ok
}

// NameOf is the name of the queue that an entry's key lies in; false if it is the key of none,
// as that of a request is.
func (q Queues) NameOf(key string) (name string, ok bool) {
	_, name, request, ok := q.parse(key)
	if !ok || request {
		return "", false
	}
	return name, true
}

func (q Queues) parse(key string) (queue, name string, request, ok bool) {
	rest, ok := strings.CutPrefix(key, q.root)
	if !ok {
		return "", "", false, false
	}
	bucket, rest, _ := strings.Cut(rest, "/")
	escaped, id, ok := strings.Cut(rest, "/")
	if !ok || id == "" {
		return "", "", false, false
	}
	escaped, request = strings.CutPrefix(escaped, requestMark)
	name, ok = unescape(escaped)
	if n, err := strconv.ParseUint(bucket, 16, 8); !ok || err != nil ||
		int(n) != shard.Of(name, buckets) || len(bucket) != 2 {
		return "", "", false, false
	}
	return key[:len(key)-len(id)], name, request, true
}

// Effects are the queues of those who want to run an effect.
func (k Keys) Effects() Queues { return Queues{root: k.prefix + "/work/effects/"} }

// EffectMarks is the prefix of the keys that say what became of effects, with its slash.
func (k Keys) EffectMarks() string { return k.prefix + "/work/marks/" }

// EffectMark is the key that says what became of an effect. It lies in none of the queues.
func (k Keys) EffectMark(name string) string { return k.EffectMarks() + url.PathEscape(name) }

// EffectOf is the name of the effect that a key says what became of; false if it is no such key.
func (k Keys) EffectOf(key string) (name string, ok bool) {
	escaped, ok := strings.CutPrefix(key, k.EffectMarks())
	if !ok {
		return "", false
	}
	return unescape(escaped)
}

// LeaseRecord is the key of the record that the candidates of an elector compete for (package
// elector). It lies in none of the queues, and not in the range that every node watches.
func (k Keys) LeaseRecord(name string) string {
	return k.prefix + "/work/leases/" + url.PathEscape(name)
}
