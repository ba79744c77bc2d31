package fault

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// trip returns the time that a message takes.
func trip(t *testing.T, from, to *net.TCPConn) time.Duration {
	t.Helper()
	began := time.Now()
	send(t, from, "message")
	hears(t, to, "message")
	return time.Since(began)
}

// takesLess fails the test unless do takes less than that in at least one of several attempts, because the
// machine may be busy.
func takesLess(t *testing.T, than time.Duration, do func() time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(patience); do() >= than; {
		require.True(t, time.Now().Before(deadline), "always takes %v or more", than)
	}
}

func TestDelayOneWay(t *testing.T) {
	const delay = 200 * time.Millisecond
	for _, way := range []Direction{ToTarget, FromTarget} {
		t.Run(way.String(), func(t *testing.T) {
			r, h := relayed(t)
			client, target := pair(t, r, h)
			from, to := client, target // in the direction of the fault
			if way == FromTarget {
				from, to = target, client
			}
			takesLess(t, delay, func() time.Duration { return trip(t, from, to) })
			r.Delay(way, delay)
			require.GreaterOrEqual(t, trip(t, from, to), delay)
			takesLess(t, delay, func() time.Duration { return trip(t, to, from) })
			r.Delay(way, 0)
			takesLess(t, delay, func() time.Duration { return trip(t, from, to) })
		})
	}
}

// TestDelayIsNotAThinLine checks that messages are delayed at the same time, not one after the other.
func TestDelayIsNotAThinLine(t *testing.T) {
	const delay, messages = 200 * time.Millisecond, 100
	r, h := relayed(t)
	client, target := pair(t, r, h)
	r.Delay(ToTarget, delay)
	began := time.Now()
	for i := range messages {
		send(t, client, "message")
		// Each arrives separately.
		require.Eventually(t, func() bool { return r.Traffic(ToTarget).Received == int64(i+1)*7 }, patience,
			100*time.Microsecond)
	}
	for range messages {
		hears(t, target, "message")
	}
	took := time.Since(began)
	require.GreaterOrEqual(t, took, delay)
	require.Less(t, took, messages*delay/4)
}

func TestDelayOfTheEnd(t *testing.T) {
	const delay = 200 * time.Millisecond
	r, h := relayed(t)
	client, target := pair(t, r, h)
	r.Delay(ToTarget, delay)
	began := time.Now()
	require.NoError(t, client.Close())
	require.ErrorIs(t, ends(t, target), io.EOF)
	require.GreaterOrEqual(t, time.Since(began), delay)
}

// TestHealEndsADelay checks that data with a long delay is delivered at once when the delay ends.
func TestHealEndsADelay(t *testing.T) {
	r, h := relayed(t)
	client, target := pair(t, r, h)
	r.Delay(ToTarget, 10*patience)
	send(t, client, "message")
	holds(t, r, ToTarget, 7)
	require.NoError(t, r.Heal())
	hears(t, target, "message")
}

// carry returns the time that so many bytes take.
func carry(t *testing.T, from, to *net.TCPConn, bytes int64) time.Duration {
	t.Helper()
	began := time.Now()
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(make([]byte, bytes))
		sent <- err
	}()
	require.NoError(t, to.SetReadDeadline(time.Now().Add(patience)))
	_, err := io.CopyN(io.Discard, to, bytes)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	return time.Since(began)
}

func TestThrottleOneWay(t *testing.T) {
	const bytes, rate, least = 100_000, 200_000, 450 * time.Millisecond
	for _, way := range []Direction{ToTarget, FromTarget} {
		t.Run(way.String(), func(t *testing.T) {
			r, h := relayed(t)
			client, target := pair(t, r, h)
			from, to := client, target // in the direction of the fault
			if way == FromTarget {
				from, to = target, client
			}
			takesLess(t, least, func() time.Duration { return carry(t, from, to, bytes) })
			r.Throttle(way, rate)
			require.GreaterOrEqual(t, carry(t, from, to, bytes), least)
			takesLess(t, least, func() time.Duration { return carry(t, to, from, bytes) })
			r.Throttle(way, 0)
			takesLess(t, least, func() time.Duration { return carry(t, from, to, bytes) })
		})
	}
}

// TestThrottleOfAllTogether checks that connections share the rate.
func TestThrottleOfAllTogether(t *testing.T) {
	const bytes, rate, least = 50_000, 200_000, 450 * time.Millisecond
	r, h := relayed(t)
	first, firstTarget := pair(t, r, h)
	second, secondTarget := pair(t, r, h)
	r.Throttle(ToTarget, rate)
	began := time.Now()
	for _, conn := range []*net.TCPConn{first, second} {
		send(t, conn, strings.Repeat("x", bytes)) // the relay receives it
	}
	for _, conn := range []*net.TCPConn{firstTarget, secondTarget} {
		hears(t, conn, strings.Repeat("x", bytes))
	}
	require.GreaterOrEqual(t, time.Since(began), least)
}
