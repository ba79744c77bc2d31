package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/testkit/etcdtest"
	"github.com/goverse/goverse/node"
)

// errNoHost is what a lookup fails with.
var errNoHost = errors.New("no such host")

func TestANameThatDoesNotResolveIsSaidByTheNodeItself(t *testing.T) {
	n, err := node.NewNode(node.Config{AdvertiseAddress: "nosuch.invalid:47001", ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	log := &logBuffer{}
	c, err := NewClusterWithNode(Config{EtcdAddress: etcdtest.Start(t).Endpoint(), LeaderElectionTTL: 2,
		Logger: log.logger()}, n)
	require.NoError(t, err)
	c.lookup = func(context.Context, string) ([]string, error) { return nil, errNoHost }
	require.NoError(t, c.Start(etcdtest.Context(t)))
	log.await(t, `the host of this node's address does not resolve here, and other nodes reach it by that alone: `+
		`set AdvertiseAddress (--advertise) to a name that resolves, or to an IP address; `+
		`in Kubernetes set publishNotReadyAddresses of the headless service: address=nosuch.invalid:47001 error="no such host"`)
	require.NoError(t, c.Stop(etcdtest.Context(t)))
}

// A name that is published late is warned of once, and it is said when it is there.
func TestANameThatResolvesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logBuffer{}
		began, asked := time.Now(), 0
		lookup := func(_ context.Context, host string) ([]string, error) {
			require.Equal(t, "late.example", host)
			if asked++; time.Since(began) < time.Minute {
				return nil, errNoHost
			}
			return []string{"192.0.2.1"}, nil
		}
		checkName(t.Context(), "late.example:47001", lookup, log.logger())
		require.Equal(t, 1, strings.Count(log.String(), "does not resolve"), log)
		require.Contains(t, log.String(), "[INFO]  the host of this node's address resolves now: "+
			"address=late.example:47001\n")
		require.Less(t, time.Since(began), 2*time.Minute)
		require.Less(t, asked, 10)
	})
}

func TestNamesThatAreNotWarnedOf(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	never := func(context.Context, string) ([]string, error) { panic("looked up") }
	for _, address := range []string{"192.0.2.1:1", "[2001:db8::1]:1", "[fe80::1%eth0]:1"} {
		checkName(t.Context(), address, never, log.logger())
	}
	checkName(t.Context(), "here.example:1", func(context.Context, string) ([]string,
		error) {
		return []string{"192.0.2.1"}, nil
	}, log.logger())
	ctx, stop := context.WithCancel(t.Context())
	checkName(ctx, "late.example:1", func(context.Context, string) ([]string, error) { stop(); return nil, errNoHost },
		log.logger())
	require.Empty(t, log.String())
}
