package state

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/goverse/goverse/cluster/shard"
)

// bucketCount is the number of ranges that the queues under one root are divided into. A process that waits in one
// queue thus receives only a small share of the changes of all others.
const bucketCount = 256

// Queues builds and parses the keys of many named queues under one root. They lie outside the range that every
// node watches. The zero value is not usable; see [Keys.Locks].
//
//	<root>/<bucket>/<name>/<lease>-<number>[-priority<n>][-shared]
//	<root>/<bucket>/!<name>/<lease>-<number>
//
// The latter is a request about a queue. No escaped name begins with '!'.
type Queues struct{ root, mark string }

// Locks returns the queues of the locks.
func (k Keys) Locks() Queues { return Queues{root: k.prefix + "/work/locks/"} }

// Elections returns the queues of the named elections.
func (k Keys) Elections() Queues { return Queues{root: k.prefix + "/elections/"} }

// Requests returns the queues of the requests about these queues, each in the bucket of the queue that it is
// about.
func (q Queues) Requests() Queues { return Queues{q.root, requestMark} }

const requestMark = "!"

// RequestsIn returns the prefix of all requests in the bucket with that prefix.
func (q Queues) RequestsIn(bucket string) string { return bucket + requestMark }

// Root returns the prefix of all keys, with its slash.
func (q Queues) Root() string { return q.root }

// BucketPrefix returns the prefix of all keys in the bucket of a name, with its slash.
func (q Queues) BucketPrefix(name string) string { return string(q.appendBucket(nil, name)) }

func (q Queues) appendBucket(to []byte, name string) []byte {
	const hex = "0123456789abcdef"
	n := shard.Of(name, bucketCount)
	return append(append(to, q.root...), hex[n>>4], hex[n&15], '/')
}

// BucketOf returns the prefix of the bucket of a queue or an entry, given its key. It is a substring of key, so
// nothing is copied.
func (q Queues) BucketOf(key string) string { return key[:len(q.root)+len("ff/")] }

// QueuePrefix returns the prefix of all keys in the queue with that name, with its slash.
func (q Queues) QueuePrefix(name string) string { return string(q.appendQueue(nil, name)) }

func (q Queues) appendQueue(to []byte, name string) []byte {
	to = append(q.appendBucket(to, name), q.mark...)
	return append(append(to, url.PathEscape(name)...), '/')
}

// EntryTraits holds the properties that an entry's key states, for readers that see only keys.
type EntryTraits struct {
	// Shared is set for a shared entry.
	Shared bool
	// Priority is the entry's priority; 0 if the key states none.
	Priority int
	// WrittenByGoverse is set if Goverse wrote the key. EntryKey ignores it and always makes such keys.
	WrittenByGoverse bool
}

// EntryKey returns the key of an entry on a session's lease. number, from 1 up, distinguishes the session's
// entries of that name.
func (q Queues) EntryKey(name string, lease, number int64, t EntryTraits) string {
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

// TraitsOf returns the traits that an entry's key states. A key that other programs wrote by their own rules
// has no priority.
func TraitsOf(key string) EntryTraits {
	id, shared := strings.CutSuffix(key[strings.LastIndexByte(key, '/')+1:], sharedSuffix)
	id, said, preferred := strings.Cut(id, prioritySuffix)
	lease, number, _ := strings.Cut(id, "-")
	// both are spelled alike
	t := EntryTraits{Shared: shared, WrittenByGoverse: parseLease(lease) != 0 && parseLease(number) != 0}
	if !t.WrittenByGoverse || !preferred {
		return t
	}
	priority, err := strconv.Atoi(said)
	if err != nil || priority == 0 || strconv.Itoa(priority) != said {
		return EntryTraits{Shared: shared}
	}
	t.Priority = priority
	return t
}

// BatchCounter returns the key of a lane's batch counter on a session's lease. It is in no bucket.
func (q Queues) BatchCounter(lease int64, lane int) string {
	return fmt.Sprintf("%sbatches/%x-%x", q.root, lease, lane)
}

// QueueOf returns the prefix of the queue of an entry or a request, given its key. ok is false if the key
// belongs to no queue. It accepts keys of any author, with anything after the last slash.
func (q Queues) QueueOf(key string) (queue string, ok bool) {
	queue, _, _, ok = q.parseKey(key)
	return queue, ok
}

// NameOf returns the name of the queue of an entry, given its key. ok is false if the key belongs to no queue,
// or is a request's.
func (q Queues) NameOf(key string) (name string, ok bool) {
	_, name, request, ok := q.parseKey(key)
	if !ok || request {
		return "", false
	}
	return name, true
}

func (q Queues) parseKey(key string) (queue, name string, request, ok bool) {
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
	name, ok = unescapeName(escaped)
	if n, err := strconv.ParseUint(bucket, 16, 8); !ok || err != nil ||
		int(n) != shard.Of(name, bucketCount) || len(bucket) != 2 {
		return "", "", false, false
	}
	return key[:len(key)-len(id)], name, request, true
}

// Effects returns the queues of the effects.
func (k Keys) Effects() Queues { return Queues{root: k.prefix + "/work/effects/"} }

// EffectMarks returns the prefix of the marks of effects, with its slash.
func (k Keys) EffectMarks() string { return k.prefix + "/work/marks/" }

// EffectMark returns the key of the mark of an effect. It lies in none of the queues.
func (k Keys) EffectMark(name string) string { return k.EffectMarks() + url.PathEscape(name) }

// EffectOf returns the name of the effect, given the key of its mark. ok is false for another key.
func (k Keys) EffectOf(key string) (name string, ok bool) {
	escaped, ok := strings.CutPrefix(key, k.EffectMarks())
	if !ok {
		return "", false
	}
	return unescapeName(escaped)
}

// LeaseRecord returns the key of the record that the candidates of an elector compete for (package elector). It
// lies in none of the queues and outside the range that every node watches.
func (k Keys) LeaseRecord(name string) string {
	return k.prefix + "/work/leases/" + url.PathEscape(name)
}
