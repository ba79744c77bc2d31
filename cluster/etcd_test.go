package cluster

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/node"
)

// startAt returns the error of Start with cfg, and its duration. The context of Start allows for a long time.
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

// Another server at etcd's address ends Start at once.
func TestWhatAnswersIsNoEtcd(t *testing.T) {
	t.Parallel()
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
		for _, user := range []string{"", "u"} {
			t.Run(name+", user "+user, func(t *testing.T) {
				t.Parallel()
				took, err := startAt(t, Config{EtcdAddress: address, Username: user, Password: user,
					RequestTimeout: 500 * time.Millisecond})
				require.ErrorIs(t, err, ErrNotEtcd)
				require.EqualError(t, err, "what answers at "+address+" is no etcd: set EtcdAddress to etcd's client "+
					"address, usually port 2379")
				require.Less(t, took, 10*time.Second)
			})
		}
	}
}

// A refused certificate ends Start. The error is the same with a user, which would log in first.
func TestStrangeCertificate(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of failing handshakes
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	var said []string
	for _, user := range []string{"", "u"} {
		_, err := startAt(t, Config{EtcdAddress: "https://" + secure.Listener.Addr().String(), Username: user,
			Password: user, DialTimeout: time.Hour, RequestTimeout: time.Hour})
		require.ErrorIs(t, err, ErrEtcdUnreachable)
		require.ErrorContains(t, err, ": a certificate is refused: check TLS (tls: failed to verify certificate: ")
		said = append(said, err.Error())
	}
	require.Equal(t, said[0], said[1])
}

func TestRefusedByEtcdsAccessControl(t *testing.T) {
	etcd := etcdtest.Start(t)
	client := etcd.Client()
	etcdtest.EnableAuth(t, client, "p", "u")

	_, err := startAt(t, Config{EtcdAddress: etcd.Endpoint()})
	require.ErrorIs(t, err, ErrEtcdDenied)
	require.ErrorContains(t, err, "set Username and Password to those of a user with READ and WRITE on the range "+
		"/goverse/leader- to /goverse/shards0")
	_, err = startAt(t, Config{EtcdAddress: etcd.Endpoint(), Username: "u", Password: "p"})
	require.ErrorIs(t, err, ErrEtcdDenied)
	require.ErrorContains(t, err, `"u": grant it READ and WRITE on the range /goverse/leader- to /goverse/shards0`)
	_, err = startAt(t, Config{EtcdAddress: etcd.Endpoint(), Username: "u", Password: "wrong"})
	require.ErrorContains(t, err, `"u": check Username and Password`)
}

// A cancelled request is reported by its caller. With a user, etcd's client would log it as an error.
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
