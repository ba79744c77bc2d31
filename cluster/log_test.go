package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/node"
)

func TestOtherMembersAreLogged(t *testing.T) {
	etcd := etcdtest.Start(t)
	first := start(t, etcd)
	log := &logtest.Buffer{}
	a := start(t, etcd, func(c *Config) { c.Logger = log.Logger() })
	b, c := start(t, etcd), start(t, etcd)
	log.Await(t, "a node joined: address="+b.address()+" members=3")
	log.Await(t, "a node joined: address="+c.address()+" members=4")

	require.NoError(t, b.Stop(etcdtest.Context(t)))
	log.Await(t, "a node left: address="+b.address()+" members=3")
	_, err := etcd.Client().Revoke(etcdtest.Context(t), c.Session().ID())
	require.NoError(t, err)
	log.Await(t, "a node was lost: address="+c.address()+" ") // it may be back in the same look
	require.NoError(t, a.Stop(etcdtest.Context(t)))

	for _, self := range []string{first.address(), a.address()} {
		for _, event := range []string{"joined", "left", "was lost"} {
			require.NotContains(t, log.String(), event+": address="+self, "itself, or there before it")
		}
	}
	require.NotContains(t, log.String(), "left: address="+c.address())
	require.NotContains(t, log.String(), "was lost: address="+b.address())
}

func TestOwnHostThatDoesNotResolveIsLogged(t *testing.T) {
	n, err := node.NewNode(node.Config{AdvertiseAddress: "nosuch.invalid:47001", ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	log := &logtest.Buffer{}
	c, err := NewClusterWithNode(Config{EtcdAddress: etcdtest.Start(t).Endpoint(), LeaderElectionTTL: 2,
		Logger: log.Logger()}, n)
	require.NoError(t, err)
	c.lookup = func(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }
	require.NoError(t, c.Start(etcdtest.Context(t)))
	log.Await(t, `the host of this node's address does not resolve here, and other nodes reach it by that alone: `+
		`set AdvertiseAddress (--advertise) to a name that resolves, or to an IP address; `+
		`in Kubernetes set publishNotReadyAddresses of the headless service: `+
		`address=nosuch.invalid:47001 error="no such host"`)
	require.NoError(t, c.Stop(etcdtest.Context(t)))
}
