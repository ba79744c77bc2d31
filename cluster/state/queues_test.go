package state

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQueuesLieOutsideTheWatchedRange(t *testing.T) {
	k := testKeys(t)
	for _, q := range []Queues{k.Locks(), k.Elections()} {
		for _, key := range []string{q.Entry("a", 1, 1, false), q.Batches(1, 0)} {
			require.False(t, key >= k.RangeStart() && key < k.RangeEnd(), key)
			require.True(t, strings.HasPrefix(key, q.Root()))
		}
	}
	require.Equal(t, "/goverse/work/locks/cf/mail/7b-1", k.Locks().Entry("mail", 0x7b, 1, false))
	require.Equal(t, "/goverse/elections/cf/mail/", k.Elections().Queue("mail"))
}

func TestQueueOf(t *testing.T) {
	q := testKeys(t).Locks()
	for _, name := range []string{"a", "a/b", "a%2Fb", "..", "ä ö", "\xff", "batches"} {
		queue, ok := q.QueueOf(q.Entry(name, 7, 1, false))
		require.True(t, ok)
		require.Equal(t, q.Queue(name), queue)
		require.True(t, strings.HasPrefix(queue, q.Bucket(name)))
	}
	queue, ok := q.QueueOf(q.Queue("a") + "anything/else")
	require.True(t, ok, "it stands in the queue as any other key does")
	require.Equal(t, q.Queue("a"), queue)
	for _, key := range []string{"", q.Root(), q.Queue("a"), q.Bucket("a"), q.Batches(7, 0), "/else", q.Root() + "zz/a/1-1",
		q.Root() + "00/mail/1-1", q.Bucket("a") + "a%2/1-1"} {
		_, ok := q.QueueOf(key)
		require.False(t, ok, key)
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
	require.NoError(t, CheckName("a"))
	require.NoError(t, CheckName(strings.Repeat("a", maxName)))
	for _, name := range []string{"", strings.Repeat("a", maxName+1)} {
		require.ErrorIs(t, CheckName(name), ErrBadName)
	}
}

func FuzzQueueOf(f *testing.F) {
	q := testKeys(f).Locks()
	f.Add(q.Entry("a/b", 7, 1, true), "a/b")
	f.Fuzz(func(t *testing.T, key, name string) {
		if queue, ok := q.QueueOf(key); ok {
			require.True(t, strings.HasPrefix(key, queue))
			again, ok := q.QueueOf(queue + "x")
			require.True(t, ok)
			require.Equal(t, queue, again)
		}
		if CheckName(name) == nil {
			queue, ok := q.QueueOf(q.Entry(name, 7, 1, false))
			require.True(t, ok)
			require.Equal(t, q.Queue(name), queue)
			record := testKeys(t).LeaseRecord(name)
			_, ok = q.QueueOf(record)
			require.False(t, ok)
			require.Equal(t, ParsedKey{}, testKeys(t).Parse(record))
		}
	})
}
