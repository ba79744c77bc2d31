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
		for _, key := range []string{q.Entry("a", 1, 1, Traits{}), q.Batches(1, 0)} {
			require.False(t, key >= k.RangeStart() && key < k.RangeEnd(), key)
			require.True(t, strings.HasPrefix(key, q.Root()))
		}
	}
	require.Equal(t, "/goverse/work/locks/cf/mail/7b-1", k.Locks().Entry("mail", 0x7b, 1, Traits{}))
	require.Equal(t, "/goverse/elections/cf/mail/", k.Elections().Queue("mail"))
}

func TestQueueOf(t *testing.T) {
	q := testKeys(t).Locks()
	for _, name := range []string{"a", "a/b", "a%2Fb", "..", "ä ö", "\xff", "batches"} {
		queue, ok := q.QueueOf(q.Entry(name, 7, 1, Traits{}))
		require.True(t, ok)
		require.Equal(t, q.Queue(name), queue)
		require.True(t, strings.HasPrefix(queue, q.Bucket(name)))
	}
	queue, ok := q.QueueOf(q.Queue("a") + "anything/else")
	require.True(t, ok, "it stands in the queue as any other key does")
	require.Equal(t, q.Queue("a"), queue)
	for _, key := range []string{"", q.Root(), q.Queue("a"), q.Bucket("a"), q.Batches(7, 0), "/else", q.Root() +
		"zz/a/1-1",
		q.Root() + "00/mail/1-1", q.Bucket("a") + "a%2/1-1"} {
		_, ok := q.QueueOf(key)
		require.False(t, ok, key)
	}
}

func TestRequestsLieInTheBucketOfTheirQueue(t *testing.T) {
	q := testKeys(t).Elections()
	require.Equal(t, "/goverse/elections/cf/!mail/7b-1", q.Requests().Entry("mail", 0x7b, 1, Traits{}))
	queue, ok := q.QueueOf(q.Requests().Queue("a/b") + "7-1")
	require.True(t, ok)
	require.Equal(t, q.Requests().Queue("a/b"), queue)
	_, ok = q.NameOf(q.Requests().Queue("a/b") + "7-1")
	require.False(t, ok)
	name, ok := q.NameOf(q.Queue("a/b") + "7-1")
	require.True(t, ok)
	require.Equal(t, "a/b", name)
	require.NotEqual(t, q.Queue("!a"), q.Requests().Queue("a"), "whatever somebody calls an election")
}

func TestTraits(t *testing.T) {
	q := testKeys(t).Elections()
	for suffix, want := range map[string]Traits{
		"":                   {},
		"-shared":            {Shared: true},
		"-priority7":         {Priority: 7},
		"-priority-7":        {Priority: -7},
		"-priority12-shared": {Shared: true, Priority: 12},
	} {
		key := q.Entry("a", 0xa1, 31, want)
		require.Equal(t, q.Queue("a")+"a1-1f"+suffix, key)
		want.Own = true
		require.Equal(t, want, TraitsOf(key), key)
	}
	for id, shared := range map[string]bool{"": false, "7": false, "7-": false, "7-1-": false, "7-1-priority": false,
		"7-1-priority0":  false,
		"7-1-priority+1": false, "7-1-priority01": false, "7-1-priority99999999999999999999": false,
		"7-1-shared-priority1": false,
		"x-1-priority1":        false, "-shared": true, "7-1-priorityx-shared": true, "0-1-priority1": false} {
		require.Equal(t, Traits{Shared: shared}, TraitsOf(q.Queue("a")+id), id)
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
	require.NoError(t, CheckName("lock", strings.Repeat("a", maxName)))
	for _, name := range []string{"", strings.Repeat("a", maxName+1)} {
		require.ErrorIs(t, CheckName("lock", name), lifecycle.ErrBadName)
	}
}

func FuzzQueueOf(f *testing.F) {
	q := testKeys(f).Locks()
	f.Add(q.Entry("a/b", 7, 1, Traits{Shared: true}), "a/b", 0, false)
	f.Add(q.Requests().Entry("!", 7, 1, Traits{}), "!", -3, true)
	f.Add(q.Queue("a")+"7-1-priority3-shared", "-priority7", 3, true)
	f.Fuzz(func(t *testing.T, key, name string, priority int, shared bool) {
		if traits := TraitsOf(key); traits.Own {
			require.NotEmpty(t, key)
			traits.Own = false
			written := q.Entry("a", 7, 1, traits)
			traits.Own = true
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
			written := q.Entry(name, 7, 1, Traits{Priority: priority, Shared: shared})
			queue, ok := q.QueueOf(written)
			require.True(t, ok)
			require.Equal(t, q.Queue(name), queue)
			of, ok := q.NameOf(written)
			require.True(t, ok)
			require.Equal(t, name, of)
			require.Equal(t, Traits{Priority: priority, Shared: shared, Own: true}, TraitsOf(written))
			about, ok := q.QueueOf(q.Requests().Entry(name, 7, 1, Traits{}))
			require.True(t, ok)
			require.Equal(t, q.Requests().Queue(name), about)
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
