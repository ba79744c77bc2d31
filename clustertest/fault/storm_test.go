package fault

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFaultsInTheWayOfEachOther injects faults of all kinds at once, while connections are made. No connection
// may hang or leave anything behind.
func TestFaultsInTheWayOfEachOther(t *testing.T) {
	const rounds, breakers, clients = 100, 3, 3
	r, h := relayed(t)
	faults := []func(Direction){
		r.Blackhole, r.Reset,
		func(Direction) { r.Refuse() },
		func(d Direction) { r.Delay(d, rand.N(time.Millisecond)) },
		func(d Direction) { r.Throttle(d, 1000+rand.IntN(1000)) },
		func(Direction) { _ = r.Heal() }, // the last result is checked below
		func(d Direction) { _, _ = r.Traffic(d), r.Connections() },
	}
	over, gone := make(chan struct{}), make(chan struct{})
	var users, serving sync.WaitGroup
	serving.Go(func() { // the host, which sends everything back
		for {
			select {
			case conn := <-h.accepted:
				serving.Go(func() {
					defer conn.Close()
					buf := make([]byte, 100)
					for {
						n, err := conn.Read(buf)
						if err != nil {
							return
						}
						_, _ = conn.Write(buf[:n]) // the next read returns the error
					}
				})
			case <-gone:
				return
			}
		}
	})
	for range clients {
		users.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				conn, err := net.Dial("tcp", r.Address())
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(5 * time.Millisecond)) // it is open
				_, _ = conn.Write([]byte("hello"))                         // it may have been cut, here and below
				_, _ = conn.Read(make([]byte, 5))
				_ = conn.Close()
			}
		})
	}
	var broken sync.WaitGroup
	for range breakers {
		broken.Go(func() {
			for range rounds {
				<-time.After(rand.N(2 * time.Millisecond)) // connections come and go meanwhile
				faults[rand.IntN(len(faults))](Direction(1 + rand.IntN(int(Both))))
			}
		})
	}
	broken.Wait()
	require.NoError(t, r.Heal())
	close(over)
	users.Wait()
	client := connect(t, r.Address())
	send(t, client, "still works")
	hears(t, client, "still works")
	r.Reset(Both) // for connections with only one end notified
	require.Eventually(t, func() bool { return r.Connections() == 0 }, patience, time.Millisecond)
	close(gone)
	serving.Wait()
}
