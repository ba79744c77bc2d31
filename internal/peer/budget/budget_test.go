package budget

import (
	"context"
	"errors"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// A client that opens requests and resets them, while its first one is not received, leaves nothing behind.
func TestGateForgetsRequestsThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 0)
		ended, end := context.WithCancel(t.Context())
		end()
		require.NoError(t, g.Enter(t.Context(), "one"))
		d := g.connections["one"]
		for range 100 {
			require.ErrorIs(t, g.Enter(ended, "one"), context.Canceled)
			require.Empty(t, d.waiting)
			require.ErrorIs(t, g.Enter(t.Context(), "one"), ErrCrowded)
			require.Empty(t, d.waiting)
		}
		require.Zero(t, d.left)
	})
}

// Whatever requests give up, those that stay are admitted in their order, and no others are kept for long.
func TestGateKeepsTheOrderOfThoseThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 200
		g := NewGate(1, requests)
		require.NoError(t, g.Enter(t.Context(), "one"))
		d := g.connections["one"]
		var admitted []int
		var giveUps []context.CancelFunc
		for i := range requests {
			ctx, cancel := context.WithCancel(t.Context())
			giveUps = append(giveUps, cancel)
			go func() {
				if g.Enter(ctx, "one") == nil {
					admitted = append(admitted, i) // one is inside at a time
					g.Leave("one")
				}
			}()
			synctest.Wait()
		}
		var stay []int
		for i, giveUp := range giveUps {
			if i%7 == 3 {
				stay = append(stay, i)
				continue
			}
			giveUp()
			synctest.Wait()
		}
		require.LessOrEqual(t, len(d.waiting), 2*len(stay))
		g.Leave("one")
		synctest.Wait()
		require.Equal(t, stay, admitted)
		require.Zero(t, d.left)
		require.Empty(t, g.connections)
		for _, cancel := range giveUps {
			cancel()
		}
	})
}

// Requests that gave up do not crowd out the one behind them.
func TestGateCountsThoseThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1)
		require.NoError(t, g.Enter(t.Context(), "one"))
		first, giveUp := context.WithCancel(t.Context())
		go func() { _ = g.Enter(first, "one") }()
		synctest.Wait()
		last := make(chan error, 1)
		go func() { last <- g.Enter(t.Context(), "one") }()
		synctest.Wait()
		giveUp()
		<-time.After(2 * maxChecks * checkEvery) // of virtual time
		g.Leave("one")
		require.NoError(t, <-last)
		g.Leave("one")
	})
}

// A request that gives up at the moment at which it is admitted leaves the gate.
func TestGateIsLeftByOneThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1)
		require.NoError(t, g.Enter(t.Context(), "one"))
		ctx, giveUp := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Enter(ctx, "one") }()
		synctest.Wait()
		g.mu.Lock()
		giveUp() // it waits for the lock now
		g.leaveLocked("one")
		g.mu.Unlock()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Empty(t, g.connections)
	})
	crowded := &gateWaiter{entered: true, number: 100, checks: maxChecks}
	require.False(t, NewGate(1, 1).giveUpCrowded(&connectionGate{}, crowded), "it is inside")
}

// Any number may wait while others pass quickly. The last ones are refused if few pass, or if it takes long.
func TestGateRefusesIfFewPass(t *testing.T) {
	const mostWaiting = 10
	for _, c := range []struct{ requests, passing, refused int }{ // passing is the number between two checks
		{400, minPassed - 1, 400 - 1 - maxStillChecks*(minPassed-1) - mostWaiting},
		{400, minPassed, 0},
		{1000, minPassed, 1000 - 1 - maxChecks*minPassed - mostWaiting},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, leave := NewGate(1, mostWaiting), make(chan struct{})
			var refused atomic.Int64
			for range c.requests {
				go func() {
					if g.Enter(t.Context(), "one") != nil {
						refused.Add(1)
						return
					}
					<-leave
					g.Leave("one")
				}()
			}
			synctest.Wait()
			<-time.After(checkEvery / 2) // of virtual time
			for passed := 0; passed+int(refused.Load()) < c.requests; <-time.After(checkEvery) {
				for range min(c.passing, c.requests-passed-int(refused.Load())) {
					leave <- struct{}{}
					passed++
				}
			}
			synctest.Wait()
			require.EqualValues(t, c.refused, refused.Load(), "%+v", c)
			require.Empty(t, g.connections)
		})
	}
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
