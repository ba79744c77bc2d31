package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects/client"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	a, f := certtest.NewAuthority(t), certtest.NewFiles(t)
	f.Write(t, a.Issue(t, []string{"127.0.0.1"}))
	f.WriteCA(t, a)
	certs, err := mtls.New(mtls.Config{CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA})
	require.NoError(t, err)
	t.Cleanup(func() { _ = certs.Close() })
	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0",
		ServerOptions: []grpc.ServerOption{certs.ServerOption()}})
	require.NoError(t, err)
	cfg := cluster.Config{Client: etcdtest.Dial(t, etcdtest.Start(t).Endpoint()),
		DialOptions: []grpc.DialOption{certs.DialOption()}}
	cfg.Sharding.Shards, cfg.Sharding.Window = 64, 20*time.Millisecond
	cl, err := cluster.NewClusterWithNode(cfg, n)
	require.NoError(t, err)
	(&probepb.World{}).Register(cl, n.AdvertiseAddress())
	require.NoError(t, cl.Start(patient(t)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, cl.Stop(ctx))
	})

	addresses := []string{n.AdvertiseAddress()}
	c := dialWithTiming(t, client.Config{Addresses: addresses, DialOptions: []grpc.DialOption{certs.DialOption()}})
	probe := probepb.NewProbeClient(c.At("key"))
	_, err = probe.Add(patient(t), &probepb.AddRequest{})
	require.NoError(t, err)
	allStreams(t, probe)
	awaitAnswer(t, patient(t), connect(t, c, "goverse:///leader", certs.DialOption()), n.AdvertiseAddress())

	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(a.PEM))
	for name, options := range map[string][]grpc.DialOption{
		"plain text":     nil,
		"no certificate": {grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: trusted}))},
	} {
		ctx, cancel := context.WithTimeout(patient(t), 2*time.Second)
		defer cancel()
		_, err = client.Dial(ctx, client.Config{Addresses: addresses, DialOptions: options})
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.ErrorContains(t, err, addresses[0]+": ", name)
		require.ErrorContains(t, err, "if the nodes use TLS, set DialOptions (they may require a certificate)", name)
		require.NotContains(t, err.Error(), "\n")
		t.Log(name, "-", err)
	}
}
