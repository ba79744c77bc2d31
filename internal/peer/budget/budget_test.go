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
	require.False(t, b.Charge("one", 501))
	require.True(t, b.Charge("one", 500))
	require.False(t, b.Charge("one", 1))
	require.True(t, b.Charge("two", 250))
	require.False(t, b.Charge("two", 1))
	require.True(t, b.Charge("three", 1))
	b.Release("one", 500)
	require.True(t, b.Charge("two", 200), "what is given back is there for others")
	require.False(t, b.OverLimit("two"))
	b.ChargeAnyway("two", 100)
	require.False(t, b.Charge("two", 1))
	require.True(t, b.OverLimit("two"))
	require.False(t, b.OverLimit("four"), "though another one does")
	b.Release("two", 550)
	b.Release("three", 1)
	require.Equal(t, Usage{Limit: 1000, Refused: 4}, b.Usage())
	require.Empty(t, b.byConnection, "nothing is kept of connections that hold nothing")
}

func TestHold(t *testing.T) {
	b := New(1000)
	h := b.NewHold("one")
	require.True(t, h.GrowTo(300))
	require.True(t, h.GrowTo(200), "it holds more already")
	require.False(t, h.GrowTo(501))
	require.EqualValues(t, 300, b.Usage().Used)
	h.Release()
	h.Release()
	require.Zero(t, b.Usage().Used)
	var none Hold
	require.True(t, none.GrowTo(math.MaxInt64))
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
		return len(g.connections["one"].waiting)-g.connections["one"].left == 1
	}, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, g.Enter(t.Context(), "one"), ErrCrowded)
	require.GreaterOrEqual(t, time.Since(start), maxStillChecks*checkEvery, "for a moment any number may wait")
	g.Leave("one")
	require.NoError(t, <-entered)
	g.Leave("one")
	g.Leave("two")
	require.Empty(t, g.connections, "nothing is kept of connections that are not inside")
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
	require.EqualValues(t, maxDefault, defaultOf(math.MaxInt64, read), "a quarter of 2 GiB is more")
	files["/sys/fs/cgroup/memory.max"] = "max\n"
	require.EqualValues(t, maxDefault, defaultOf(math.MaxInt64, read))
	files["/sys/fs/cgroup/memory.max"] = "314572800\n"
	require.EqualValues(t, 75<<20, defaultOf(math.MaxInt64, read))
	require.EqualValues(t, 50<<20, defaultOf(200<<20, read), "GOMEMLIMIT")
	require.EqualValues(t, minDefault, defaultOf(1<<20, read))
}

func TestConnection(t *testing.T) {
	a := &net.TCPAddr{Port: 1}
	require.True(t, ConnectionID(a) == any(net.Addr(a)))
	require.Nil(t, ConnectionID(nil))
	require.Nil(t, ConnectionID(unhashable(nil)))
}

type unhashable []byte

func (unhashable) Network() string { return "" }
func (unhashable) String() string  { return "" }
