package link

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// payload backs the payloads of all entries, so that large ones are made quickly.
var payload = make([]byte, 8*partSize)

func sized(id uint64, n int) *entry {
	return &entry{id: id, payload: payload[:n], extra: frameOverhead}
}

// ids returns the ids of the frames, in order.
func ids(frames []frame) (out []uint64) {
	for _, f := range frames {
		out = append(out, f.e.id)
	}
	return out
}

func TestOutboxTakesAllThatFits(t *testing.T) {
	var b outbox
	require.True(t, b.isEmpty())
	for id := range uint64(5) {
		b.add(sized(id, 64))
	}
	require.EqualValues(t, 5*(64+frameOverhead), b.bytes)
	frames := b.takeFrames(nil)
	require.Equal(t, []uint64{0, 1, 2, 3, 4}, ids(frames))
	for _, f := range frames {
		require.True(t, f.first && f.last)
	}
	require.True(t, b.isEmpty())
	require.Zero(t, b.bytes)
	require.Empty(t, b.takeFrames(nil))
}

func TestOutboxPartsTakeTurnsWithSmallEntries(t *testing.T) {
	var b outbox
	b.add(sized(1, 2*partSize+1))
	b.add(sized(2, partSize+1))
	for id := uint64(10); id < 20; id++ {
		b.add(sized(id, partSize-frameOverhead))
	}
	frames := b.takeFrames(nil)
	require.Equal(t, []uint64{10, 11, 12, 1}, ids(frames), "room for a part is left")
	require.True(t, frames[3].first)
	require.False(t, frames[3].last)
	require.Equal(t, []uint64{13, 14, 15, 2}, ids(b.takeFrames(nil)))
	require.Equal(t, []uint64{16, 17, 18, 1}, ids(b.takeFrames(nil)))
	last := b.takeFrames(nil)
	require.Equal(t, []uint64{19, 2, 1}, ids(last))
	require.True(t, last[1].last)
	require.Len(t, last[1].part, 1)
	require.True(t, last[2].last)
	require.True(t, b.isEmpty())
	require.Zero(t, b.bytes)
}

func TestOutboxFillsMessages(t *testing.T) {
	b := outbox{fillMessages: true}
	b.add(sized(1, 4*partSize))
	b.add(sized(2, partSize+1))
	require.Equal(t, []uint64{1, 2, 1, 2}, ids(b.takeFrames(nil)))
	last := b.takeFrames(nil)
	require.Equal(t, []uint64{1, 1}, ids(last))
	require.True(t, last[1].last)
	require.True(t, b.isEmpty())
	require.Zero(t, b.bytes)
}

func TestOutboxRemove(t *testing.T) {
	var b outbox
	small, large, other := sized(1, 1), sized(2, 3*partSize), sized(3, 1)
	b.add(small)
	b.add(large)
	b.add(other)
	b.remove(small)
	b.remove(small)
	require.Equal(t, []uint64{3, 2}, ids(b.takeFrames(nil)))
	b.remove(large)
	require.True(t, b.isEmpty())
	require.Zero(t, b.bytes)
	b.remove(other)
	require.Zero(t, b.bytes)
}

func TestOutboxBeginsFewLargeEntriesAtATime(t *testing.T) {
	var b outbox
	for id := range uint64(3 * sendParts) {
		b.add(sized(id, 8*partSize))
	}
	open := map[uint64]bool{}
	for !b.isEmpty() {
		for _, f := range b.takeFrames(nil) {
			require.Equal(t, f.first, !open[f.e.id])
			if open[f.e.id] = true; f.last {
				delete(open, f.e.id)
			}
		}
		require.LessOrEqual(t, len(open), sendParts)
	}
}

// After any sequence of additions and removals all bytes come out once and in order, in messages of limited
// length.
func TestOutboxKeepsAll(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		var b outbox
		var all []*entry
		got, removed := map[*entry]int{}, map[*entry]bool{}
		for len(all) < 60 || !b.isEmpty() {
			if len(all) < 60 && random.IntN(2) == 0 {
				e := sized(uint64(len(all)), []int{0, 64, partSize, partSize + 1, 5 * partSize}[random.IntN(5)])
				e.extra += []int{0, 0, 0, maxExtra - frameOverhead}[random.IntN(4)]
				b.add(e)
				all = append(all, e)
			}
			if len(all) > 0 && random.IntN(8) == 0 {
				e := all[random.IntN(len(all))]
				removed[e] = removed[e] || e.inQueue != nil
				b.remove(e)
			}
			if random.IntN(3) > 0 {
				continue
			}
			size := 0
			for _, f := range b.takeFrames(nil) {
				require.False(t, removed[f.e])
				require.Equal(t, f.first, f.e.taken == len(f.part) && got[f.e] == 0)
				got[f.e] += len(f.part)
				require.Equal(t, f.last, got[f.e] == len(f.e.payload))
				size += len(f.part) + frameOverhead
				if f.first {
					size += f.e.extra
				}
			}
			require.Less(t, size, maxStreamMessage*3/4)
		}
		require.Zero(t, b.bytes)
		for _, e := range all {
			require.True(t, removed[e] || got[e] == len(e.payload))
		}
	}
}
