package budget

import (
	"context"
	"errors"
	"math"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAConnectionMayHaveHalfOfWhatTheOthersLeave(t *testing.T) {
	b := New(1000)
	require.False(t, b.Take("one", 501))
	require.True(t, b.Take("one", 500))
	require.False(t, b.Take("one", 1))
	require.True(t, b.Take("two", 250))
	require.False(t, b.Take("two", 1))
	require.True(t, b.Take("three", 1))
	b.Give("one", 500)
	require.True(t, b.Take("two", 200), "what is given back is there for others")
	require.False(t, b.Over("two"))
	b.Owe("two", 100)
	require.False(t, b.Take("two", 1))
	require.True(t, b.Over("two"))
	require.False(t, b.Over("four"), "though another one does")
	b.Give("two", 550)
	b.Give("three", 1)
	require.Equal(t, Figures{Limit: 1000, Refused: 4}, b.Figures())
	require.Empty(t, b.by, "nothing is kept of connections that hold nothing")
}

func TestHold(t *testing.T) {
	b := New(1000)
	h := b.Hold("one")
	require.True(t, h.Grow(300))
	require.True(t, h.Grow(200), "it holds more already")
	require.False(t, h.Grow(501))
	require.EqualValues(t, 300, b.Figures().Used)
	h.Release()
	h.Release()
	require.Zero(t, b.Figures().Used)
	var none Hold
	require.True(t, none.Grow(math.MaxInt64))
	none.Release()
}

func TestGate(t *testing.T) {
	g := NewGate(1, 1)
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, g.Enter(ctx, "one"))
	require.False(t, g.TryEnter("one"))
	require.True(t, g.TryEnter("two"))
	cancel()
	require.ErrorIs(t, g.Enter(ctx, "one"), context.Canceled, "the first is inside")
	entered := make(chan error)
	go func() { entered <- g.Enter(t.Context(), "one") }()
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.doors["one"].waiting)-g.doors["one"].left == 1
	}, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, g.Enter(t.Context(), "one"), ErrCrowded)
	require.GreaterOrEqual(t, time.Since(start), still*lookEvery, "for a moment any number may wait")
	g.Leave("one")
	require.NoError(t, <-entered)
	g.Leave("one")
	g.Leave("two")
	require.Empty(t, g.doors, "nothing is kept of connections that are not inside")
}

func TestDefault(t *testing.T) {
	files := map[string]string{"/proc/meminfo": "MemTotal:  2097152 kB\nMemFree: 1 kB\n"}
	read := func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, errors.New("there is none")
		}
		return []byte(text), nil
	}
	require.EqualValues(t, atMost, defaultOf(math.MaxInt64, read), "a quarter of 2 GiB is more")
	files["/sys/fs/cgroup/memory.max"] = "max\n"
	require.EqualValues(t, atMost, defaultOf(math.MaxInt64, read))
	files["/sys/fs/cgroup/memory.max"] = "314572800\n"
	require.EqualValues(t, 75<<20, defaultOf(math.MaxInt64, read))
	require.EqualValues(t, 50<<20, defaultOf(200<<20, read), "GOMEMLIMIT")
	require.EqualValues(t, atLeast, defaultOf(1<<20, read))
}

func TestConnection(t *testing.T) {
	a := &net.TCPAddr{Port: 1}
	require.True(t, Connection(a) == any(net.Addr(a)))
	require.Nil(t, Connection(nil))
	require.Nil(t, Connection(unhashable(nil)))
}

type unhashable []byte

func (unhashable) Network() string { return "" }
func (unhashable) String() string  { return "" }
