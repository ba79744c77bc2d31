package cluster

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/testkit/etcdtest"
	"github.com/goverse/goverse/internal/testkit/logtest"
	"github.com/goverse/goverse/node"
)

// startAt is what Start says with cfg, and how long it took; it has a long patience.
func startAt(t *testing.T, cfg Config) (took time.Duration, err error) {
	t.Helper()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	c, err := NewClusterWithNode(cfg, n)
	require.NoError(t, err)
	began := time.Now()
	err = c.Start(etcdtest.Context(t))
	if err == nil {
		require.NoError(t, c.Stop(etcdtest.Context(t)))
	}
	return time.Since(began), err
}

// Another server at etcd's address does not become etcd by waiting.
func TestWhatAnswersIsNoEtcd(t *testing.T) {
	other, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Close() })
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	web2 := httptest.NewUnstartedServer(http.NotFoundHandler())
	web2.Config.Protocols = new(http.Protocols)
	web2.Config.Protocols.SetHTTP1(true)
	web2.Config.Protocols.SetUnencryptedHTTP2(true)
	web2.Start()
	t.Cleanup(web2.Close)

	for name, address := range map[string]string{
		"a gRPC server": other.AdvertiseAddress(), "a web server": web.Listener.Addr().String(),
		"a web server with HTTP/2": web2.Listener.Addr().String()} {
		took, err := startAt(t, Config{EtcdAddress: address, RequestTimeout: 500 * time.Millisecond})
		require.ErrorIs(t, err, ErrNotEtcd, name)
		require.EqualError(t, err, "what answers at "+address+" is no etcd: give etcd's client address, usually port 2379",
			name)
		require.Less(t, took, 10*time.Second, name)
	}
	_, err = startAt(t, Config{EtcdAddress: other.AdvertiseAddress(), Username: "u", Password: "p"})
	require.ErrorIs(t, err, ErrNotEtcd, "also where the password is checked first")
}

// serveTCP has answer talk to who connects, one at a time, and returns the address.
func serveTCP(t *testing.T, answer func(conn net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// What certainly is no etcd is told from what may be one that is slow, or a proxy before one
// that is gone.
func TestWhyUnreachable(t *testing.T) {
	says := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(conn, text)
			_, _ = io.Copy(io.Discard, conn)
		}
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for name, c := range map[string]struct {
		address string
		no      bool // it is no etcd
		why     string
	}{
		"HTTP/1":   {serveTCP(t, says("HTTP/1.0 505 HTTP Version Not Supported\r\n\r\n")), true, "is no etcd"},
		"HTTP/0.9": {serveTCP(t, says("<!DOCTYPE HTML>\n<html>\n</html>\n")), true, "is no etcd"},
		"Redis": {serveTCP(t, says("-ERR unknown command 'PRI', with args beginning with: \r\n")), true,
			"is no etcd"},
		"HTTP/2": {serveTCP(t, says("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00")), false,
			"deadline exceeded"},
		"half a greeting": {serveTCP(t, says("\x00\x00\x06")), false, "deadline exceeded"},
		"a closed door":   {serveTCP(t, func(net.Conn) {}), false, "deadline exceeded"},
		"silence": {serveTCP(t, says("")), false,
			"it takes connections and says nothing: it is no etcd, or one that stands still"},
		"TLS": {secure.Listener.Addr().String(), false, "it speaks TLS, and this side does not"},
	} {
		t.Run(name, func(t *testing.T) {
			err := WhyUnreachable(etcdtest.Context(t), Config{EtcdAddress: c.address}, context.DeadlineExceeded)
			require.ErrorContains(t, err, c.why)
			require.Equal(t, c.no, errors.Is(err, ErrNotEtcd), "%v", err)
		})
	}
}

// etcd itself, which serves HTTP/1 at the same port, is never mistaken.
func TestASlowEtcdIsEtcd(t *testing.T) {
	etcd := etcdtest.Start(t)
	err := WhyUnreachable(etcdtest.Context(t), Config{EtcdAddress: etcd.Endpoint()}, context.DeadlineExceeded)
	require.Equal(t, context.DeadlineExceeded, err)
}

func TestRefusedByEtcdsAccessControl(t *testing.T) {
	ctx := etcdtest.Context(t)
	etcd := etcdtest.Start(t)
	client := etcd.Client()
	for user, role := range map[string]string{"root": "root", "u": "weak"} {
		_, err := client.RoleAdd(ctx, role)
		require.NoError(t, err)
		_, err = client.UserAdd(ctx, user, "p")
		require.NoError(t, err)
		_, err = client.UserGrantRole(ctx, user, role)
		require.NoError(t, err)
	}
	_, err := client.AuthEnable(ctx)
	require.NoError(t, err)

	_, err = startAt(t, Config{EtcdAddress: etcd.Endpoint()})
	require.ErrorIs(t, err, ErrEtcdDenied)
	require.ErrorContains(t, err, "set Username and Password to those of a user with READ and WRITE on the range "+
		"/goverse/leader- to /goverse/shards0")
	_, err = startAt(t, Config{EtcdAddress: etcd.Endpoint(), Username: "u", Password: "p"})
	require.ErrorIs(t, err, ErrEtcdDenied)
	require.ErrorContains(t, err, `"u": grant it READ and WRITE on the range /goverse/leader- to /goverse/shards0`)
	_, err = startAt(t, Config{EtcdAddress: etcd.Endpoint(), Username: "u", Password: "wrong"})
	require.ErrorContains(t, err, `"u": check the user and password`)
}

// A request that is given up is the caller's to report. With a user, etcd's client calls it an error.
func TestARequestGivenUpIsNotInTheLog(t *testing.T) {
	ctx := etcdtest.Context(t)
	etcd := etcdtest.Start(t)
	_, err := etcd.Client().RoleAdd(ctx, "root")
	require.NoError(t, err)
	_, err = etcd.Client().UserAdd(ctx, "root", "p")
	require.NoError(t, err)
	_, err = etcd.Client().UserGrantRole(ctx, "root", "root")
	require.NoError(t, err)
	_, err = etcd.Client().AuthEnable(ctx)
	require.NoError(t, err)

	log := &logtest.Buffer{}
	client, err := NewEtcdClient(Config{EtcdAddress: etcd.Endpoint(), Username: "root", Password: "p",
		Logger: log.Logger()})
	require.NoError(t, err)
	defer client.Close() // nothing was written
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = client.KeepAliveOnce(ended, 1)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, log.String())
}

func TestTheWarningSaysForHowLongItIsTried(t *testing.T) {
	log := &logtest.Buffer{}
	cfg := Config{EtcdAddress: "127.0.0.1:1", Logger: log.Logger()}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	said := false
	for range 2 {
		sayUnreachable(ctx, cfg, context.DeadlineExceeded, &said)
	}
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Regexp(t, `trying on: etcd=127.0.0.1:1 at_most=(1h0m0s|59m[0-9.]+s) error=`, log.String())
	said = false
	sayUnreachable(context.Background(), cfg, context.DeadlineExceeded, &said)
	require.Equal(t, 1, strings.Count(log.String(), "at_most"), "for ever, if there is no deadline")
}
