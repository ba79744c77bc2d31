package state

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/lifecycle"
)

func TestQueuesLieOutsideTheWatchedRange(t *testing.T) {
	k := testKeys(t)
	for _, q := range []Queues{k.Locks(), k.Elections()} {
		for _, key := range []string{q.EntryKey("a", 1, 1, EntryTraits{}), q.BatchCounter(1, 0)} {
			require.False(t, key >= k.RangeStart() && key < k.RangeEnd(), key)
			require.True(t, strings.HasPrefix(key, q.Root()))
		}
	}
	require.Equal(t, "/goverse/work/locks/cf/mail/7b-1", k.Locks().EntryKey("mail", 0x7b, 1, EntryTraits{}))
	require.Equal(t, "/goverse/elections/cf/mail/", k.Elections().QueuePrefix("mail"))
}

func TestQueueOf(t *testing.T) {
	q := testKeys(t).Locks()
	for _, name := range []string{"a", "a/b", "a%2Fb", "..", "ä ö", "\xff", "batches"} {
		queue, ok := q.QueueOf(q.EntryKey(name, 7, 1, EntryTraits{}))
		require.True(t, ok)
		require.Equal(t, q.QueuePrefix(name), queue)
		require.True(t, strings.HasPrefix(queue, q.BucketPrefix(name)))
	}
	queue, ok := q.QueueOf(q.QueuePrefix("a") + "anything/else")
	require.True(t, ok, "it stands in the queue as any other key does")
	require.Equal(t, q.QueuePrefix("a"), queue)
	for _, key := range []string{"", q.Root(), q.QueuePrefix("a"), q.BucketPrefix("a"), q.BatchCounter(7, 0), "/else",
		q.Root() +
			"zz/a/1-1",
		q.Root() + "00/mail/1-1", q.BucketPrefix("a") + "a%2/1-1"} {
		_, ok := q.QueueOf(key)
		require.False(t, ok, key)
	}
}

func TestRequestsLieInTheBucketOfTheirQueue(t *testing.T) {
	q := testKeys(t).Elections()
	require.Equal(t, "/goverse/elections/cf/!mail/7b-1", q.Requests().EntryKey("mail", 0x7b, 1, EntryTraits{}))
	queue, ok := q.QueueOf(q.Requests().QueuePrefix("a/b") + "7-1")
	require.True(t, ok)
	require.Equal(t, q.Requests().QueuePrefix("a/b"), queue)
	_, ok = q.NameOf(q.Requests().QueuePrefix("a/b") + "7-1")
	require.False(t, ok)
	name, ok := q.NameOf(q.QueuePrefix("a/b") + "7-1")
	require.True(t, ok)
	require.Equal(t, "a/b", name)
	require.NotEqual(t, q.QueuePrefix("!a"), q.Requests().QueuePrefix("a"), "whatever somebody calls an election")
}

func TestTraits(t *testing.T) {
	q := testKeys(t).Elections()
	for suffix, want := range map[string]EntryTraits{
		"":                   {},
		"-shared":            {Shared: true},
		"-priority7":         {Priority: 7},
		"-priority-7":        {Priority: -7},
		"-priority12-shared": {Shared: true, Priority: 12},
	} {
		key := q.EntryKey("a", 0xa1, 31, want)
		require.Equal(t, q.QueuePrefix("a")+"a1-1f"+suffix, key)
		want.WrittenByGoverse = true
		require.Equal(t, want, TraitsOf(key), key)
	}
	for id, shared := range map[string]bool{"": false, "7": false, "7-": false, "7-1-": false, "7-1-priority": false,
		"7-1-priority0":  false,
		"7-1-priority+1": false, "7-1-priority01": false, "7-1-priority99999999999999999999": false,
		"7-1-shared-priority1": false,
		"x-1-priority1":        false, "-shared": true, "7-1-priorityx-shared": true, "0-1-priority1": false} {
		require.Equal(t, EntryTraits{Shared: shared}, TraitsOf(q.QueuePrefix("a")+id), id)
	}
}

func TestLeaseRecordsLieApart(t *testing.T) {
	k := testKeys(t)
	require.Equal(t, "/goverse/work/leases/a%2Fb", k.LeaseRecord("a/b"))
	require.False(t, strings.HasPrefix(k.LeaseRecord("a/b"), k.LeaseRecord("a")+"/"))
	for _, key := range []string{k.LeaseRecord("a"), k.LeaseRecord("../locks/cf/mail/7b-1")} {
		require.False(t, key >= k.RangeStart() && key < k.RangeEnd(), key)
		require.False(t, strings.HasPrefix(key, k.Locks().Root()), key)
		_, queued := k.Locks().QueueOf(key)
		require.False(t, queued, key)
	}
}

func TestCheckName(t *testing.T) {
	require.NoError(t, CheckName("lock", "a"))
	require.NoError(t, CheckName("lock", strings.Repeat("a", maxNameLength)))
	for _, name := range []string{"", strings.Repeat("a", maxNameLength+1)} {
		require.ErrorIs(t, CheckName("lock", name), lifecycle.ErrBadName)
	}
}

func FuzzQueueOf(f *testing.F) {
	q := testKeys(f).Locks()
	f.Add(q.EntryKey("a/b", 7, 1, EntryTraits{Shared: true}), "a/b", 0, false)
	f.Add(q.Requests().EntryKey("!", 7, 1, EntryTraits{}), "!", -3, true)
	f.Add(q.QueuePrefix("a")+"7-1-priority3-shared", "-priority7", 3, true)
	f.Fuzz(func(t *testing.T, key, name string, priority int, shared bool) {
		if traits := TraitsOf(key); traits.WrittenByGoverse {
			require.NotEmpty(t, key)
			traits.WrittenByGoverse = false
			written := q.EntryKey("a", 7, 1, traits)
			traits.WrittenByGoverse = true
			require.Equal(t, traits, TraitsOf(written))
		} else {
			require.Zero(t, traits.Priority, "only of our own")
		}
		if queue, ok := q.QueueOf(key); ok {
			require.True(t, strings.HasPrefix(key, queue))
			again, ok := q.QueueOf(queue + "x")
			require.True(t, ok)
			require.Equal(t, queue, again)
		}
		if CheckName("lock", name) == nil {
			written := q.EntryKey(name, 7, 1, EntryTraits{Priority: priority, Shared: shared})
			queue, ok := q.QueueOf(written)
			require.True(t, ok)
			require.Equal(t, q.QueuePrefix(name), queue)
			of, ok := q.NameOf(written)
			require.True(t, ok)
			require.Equal(t, name, of)
			require.Equal(t, EntryTraits{Priority: priority, Shared: shared, WrittenByGoverse: true}, TraitsOf(written))
			about, ok := q.QueueOf(q.Requests().EntryKey(name, 7, 1, EntryTraits{}))
			require.True(t, ok)
			require.Equal(t, q.Requests().QueuePrefix(name), about)
			require.NotEqual(t, queue, about)
			record := testKeys(t).LeaseRecord(name)
			_, ok = q.QueueOf(record)
			require.False(t, ok)
			require.Equal(t, ParsedKey{}, testKeys(t).Parse(record))
		}
	})
}

func TestEffectOf(t *testing.T) {
	keys := testKeys(t)
	for _, name := range []string{"a", "a/b c", "!", "\xff\x00", "%2F"} {
		of, ok := keys.EffectOf(keys.EffectMark(name))
		require.True(t, ok, "%q", name)
		require.Equal(t, name, of)
	}
	for _, key := range []string{"", "/goverse/work/marks/", "/goverse/work/marks/a/b", "/goverse/work/marks/%61",
		"/goverse/work/leases/a", "/other/work/marks/a"} {
		_, ok := keys.EffectOf(key)
		require.False(t, ok, "%q", key)
	}
}
