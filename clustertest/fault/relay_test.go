package fault

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEverythingPassesBothWays(t *testing.T) {
	r, h := relayed(t)
	client, target := pair(t, r, h)
	// More than the relay can hold.
	there, back := make([]byte, 3*queueBytes), make([]byte, 3*queueBytes)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(there) // never fails
	_, _ = source.Read(back)
	errs := make(chan error, 4)
	exchange := func(conn *net.TCPConn, what, want []byte) {
		go func() {
			_, err := conn.Write(what)
			errs <- errors.Join(err, conn.CloseWrite())
		}()
		go func() {
			got, err := io.ReadAll(conn)
			if err == nil && !bytes.Equal(want, got) {
				err = errors.New("something else arrives")
			}
			errs <- err
		}()
	}
	exchange(client, there, back)
	exchange(target, back, there)
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	require.Eventually(t, func() bool { return r.Connections() == 0 }, patience, time.Millisecond, "both ends have closed")
	sent, answered := int64(len(there)), int64(len(back)+1) // with the bytes of pair
	require.Equal(t, Traffic{sent, sent}, r.Traffic(ToTarget))
	require.Equal(t, Traffic{answered, answered}, r.Traffic(FromTarget))
	require.Equal(t, Traffic{sent + answered, sent + answered}, r.Traffic(Both))
}

func TestOneEndClosesTheOtherGoesOn(t *testing.T) {
	r, h := relayed(t)
	client, target := pair(t, r, h)
	require.NoError(t, client.CloseWrite())
	require.ErrorIs(t, ends(t, target), io.EOF)
	send(t, target, "answer")
	hears(t, client, "answer")
	require.Equal(t, 1, r.Connections())
}

func TestAResetIsPassedOn(t *testing.T) {
	r, h := relayed(t)
	client, target := pair(t, r, h)
	resetConn(client)
	require.ErrorIs(t, ends(t, target), syscall.ECONNRESET)
	client, target = pair(t, r, h)
	resetConn(target)
	require.ErrorIs(t, ends(t, client), syscall.ECONNRESET)
}

func TestATargetThatIsNotThere(t *testing.T) {
	noLeaks(t)
	nobody, err := NewRelay("127.0.0.1:1")
	require.NoError(t, err)
	defer nobody.Close()
	nobody.Refuse() // a port on which certainly no program listens
	r, err := NewRelay(nobody.Address())
	require.NoError(t, err)
	defer r.Close()
	conn, err := net.Dial("tcp", r.Address())
	if err == nil { // it may be over already
		defer conn.Close()
		err = ends(t, conn.(*net.TCPConn))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestRelayArguments(t *testing.T) {
	noLeaks(t)
	for _, address := range []string{"", "127.0.0.1", "localhost:0", "[::1]:0", "127.0.0.1:x"} {
		_, err := NewRelayAt(address, "127.0.0.1:1")
		require.ErrorContains(t, err, "127.0.0.1:0", address)
	}
	_, err := NewRelay("etcd")
	require.ErrorContains(t, err, "host:port")

	r, err := NewRelay("127.0.0.1:1")
	require.NoError(t, err)
	_, err = NewRelayAt(r.Address(), "127.0.0.1:1")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.Panics(t, func() { r.Blackhole(0) })
	r.Close()
	r.Close()
	require.ErrorIs(t, r.Heal(), net.ErrClosed)
	again, err := NewRelayAt(r.Address(), "127.0.0.1:1")
	require.NoError(t, err, "the port is free after Close")
	again.Close()
}

// TestCloseEndsWhatWaits checks that Close ends every connection, whatever it waits for, and joins its
// goroutines.
func TestCloseEndsWhatWaits(t *testing.T) {
	for name, fault := range map[string]func(*Relay){
		"nothing":         func(*Relay) {},
		"held back":       func(r *Relay) { r.Blackhole(Both) },
		"delayed":         func(r *Relay) { r.Delay(Both, patience) },
		"throttled":       func(r *Relay) { r.Throttle(Both, 1) },
		"reset one way":   func(r *Relay) { r.Reset(ToTarget) },
		"reset the other": func(r *Relay) { r.Reset(FromTarget) },
		"refused":         func(r *Relay) { r.Refuse() },
	} {
		t.Run(name, func(t *testing.T) {
			r, h := relayed(t)
			client, target := pair(t, r, h)
			idle, _ := pair(t, r, h)
			fault(r)
			_, _ = client.Write(make([]byte, 100)) // the fault may have closed it, here and below
			_, _ = target.Write(make([]byte, 100))
			if late, err := net.Dial("tcp", r.Address()); err == nil {
				defer late.Close()
			}
			_ = idle.CloseWrite()
			r.Close()
			require.Zero(t, r.Connections())
		})
	}
}
