package cluster

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	err = c.Start(testContext(t))
	if err == nil {
		require.NoError(t, c.Stop(testContext(t)))
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
		require.EqualError(t, err, "what answers at "+address+" is no etcd: give etcd's client address, usually port 2379", name)
		require.Less(t, took, 10*time.Second, name)
	}
	_, err = startAt(t, Config{EtcdAddress: other.AdvertiseAddress(), Username: "u", Password: "p"})
	require.ErrorIs(t, err, ErrNotEtcd, "also where the password is checked first")
}

// etcd itself, which serves HTTP/1 at the same port, is never mistaken.
func TestASlowEtcdIsEtcd(t *testing.T) {
	etcd := startEtcd(t)
	err := WhyUnreachable(testContext(t), Config{EtcdAddress: etcd.Endpoint()}, context.DeadlineExceeded)
	require.Equal(t, context.DeadlineExceeded, err)
	require.False(t, speaksHTTP1(testContext(t), strings.TrimPrefix(etcd.Endpoint(), "http://")))
}
