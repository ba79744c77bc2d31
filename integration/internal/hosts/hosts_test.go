//go:build linux

package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/needed"
)

// serveEnv makes a copy of the test binary a server at the address that it holds.
const serveEnv = "GOVERSE_INTEGRATION_HOSTS_SERVE"

func TestMain(m *testing.M) {
	if address := os.Getenv(serveEnv); address != "" {
		go exchange(address)
		_ = http.ListenAndServe(address, http.HandlerFunc(answer))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// exchange prints each datagram that it receives at an address, and sends one to the centre every few milliseconds.
func exchange(address string) {
	conn, err := net.ListenPacket("udp4", address)
	if err != nil {
		panic(err)
	}
	go func() {
		to := &net.UDPAddr{IP: net.ParseIP(centre), Port: datagramPort}
		for range time.Tick(5 * time.Millisecond) {
			_, _ = conn.WriteTo([]byte(address), to)
		}
	}()
	for buf := make([]byte, 100); ; {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", buf[:n])
	}
}

// datagramPort is the port of the centre for datagrams.
const datagramPort = 9

// answer answers a request. With the parameter ask it first asks that address for an answer of its own.
func answer(w http.ResponseWriter, r *http.Request) {
	if next := r.URL.Query().Get("ask"); next != "" {
		if err := ask(r.Context(), next, ""); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}
}

// ask asks the server at an address, or that server to ask another one.
func ask(ctx context.Context, address, next string) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/?ask="+next, nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return errors.New(string(text))
	}
	return nil
}

// Hosts reach each other and the centre, unless one of them is cut off; a cut in one direction suffices for that.
func TestCuts(t *testing.T) {
	if !Inside() {
		if why := Missing(t); why != "" {
			t.Skip(why)
		}
		Run(t)
		return
	}
	n := New(t)
	centreAddress, err := port.Servers.Draw(n.Address)
	require.NoError(t, err)
	start(t, nil, centreAddress)
	a, b := n.NewHost(t), n.NewHost(t)
	atA, atB := a.Address+":80", b.Address+":80"
	processA := start(t, a, atA)
	start(t, b, atB)
	reached := func(want bool, paths ...[2]string) {
		t.Helper()
		for _, p := range paths {
			require.Eventually(t, func() bool { return (ask(t.Context(), p[0], p[1]) == nil) == want }, time.Minute,
				10*time.Millisecond, "%v reaches %v: %t", p[0], p[1], want)
		}
	}
	ofA, ofB := [][2]string{{atA, atB}, {atA, centreAddress}}, [][2]string{{atB, centreAddress}}
	reached(true, append(ofA, ofB...)...)
	for _, d := range []Direction{ToHost, FromHost, BothWays} {
		a.Cut(d)
		reached(false, [2]string{atA, ""}, [2]string{atB, atA}) // at once: all later requests fail
		require.Error(t, ask(t.Context(), atA, ""), d)
		reached(true, ofB...)
		a.Heal()
		reached(true, append(ofA, ofB...)...)
	}

	a.CutPower()
	require.Eventually(t, func() bool {
		_, err := net.DialTimeout("tcp", atA, 10*time.Second)
		return errors.Is(err, syscall.EHOSTUNREACH)
	}, time.Minute, time.Millisecond)
	a.Heal()
	reached(true, append(ofA, ofB...)...)

	standing, err := net.Dial("tcp", atA)
	require.NoError(t, err)
	a.ResetConnections("80")
	require.NoError(t, standing.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err = standing.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) && !needed.Required("iptables") {
		t.Log("the kernel resets no connections here: it has no CONFIG_INET_DIAG_DESTROY")
	} else {
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	require.NoError(t, standing.Close())

	// Datagrams show one direction at a time.
	conn, err := net.ListenPacket("udp4", fmt.Sprintf("%s:%d", centre, datagramPort))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	to, err := net.ResolveUDPAddr("udp4", atA)
	require.NoError(t, err)
	for _, test := range []struct {
		cut           Direction
		toHost, fromA bool
	}{{"", true, true}, {ToHost, false, true}, {FromHost, true, false}, {BothWays, false, false}} {
		if test.cut != "" {
			a.Cut(test.cut)
		}
		text := fmt.Sprintf("datagram %q", test.cut)
		received := func() bool { return strings.Contains(processA.Output(), text) }
		from := datagramsFrom(t, conn, a.Address, func(from int) (enough bool) {
			_, err := conn.WriteTo([]byte(text), to)
			require.NoError(t, err)
			return (!test.fromA || from > 0) && (!test.toHost || received())
		})
		require.Equal(t, test.fromA, from > 0, "%s: %d datagrams from the host", test.cut, from)
		require.Equal(t, test.toHost, received(), "%s: to the host", test.cut)
		a.Heal()
	}
}

// datagramsFrom counts the datagrams from a host that arrive within some time, and until enough returns true for their
// number.
func datagramsFrom(t *testing.T, conn net.PacketConn, host string, enough func(n int) bool) (n int) {
	t.Helper()
	buf := make([]byte, 100)
	for began := time.Now(); !enough(n) || time.Since(began) < 400*time.Millisecond; {
		require.Less(t, time.Since(began), time.Minute, "%d datagrams from %s", n, host)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		_, from, err := conn.ReadFrom(buf)
		// Those that were queued before may be of the time before the cut.
		if err == nil && time.Since(began) > 200*time.Millisecond && from.(*net.UDPAddr).IP.String() == host {
			n++
		}
	}
	return n
}

// start starts a server at an address, on a host or outside of all hosts.
func start(t *testing.T, h *Host, address string) *fault.Process {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	var args []string
	if h != nil {
		path, args = h.Command(path, nil)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), serveEnv+"="+address)
	p, err := fault.StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}
