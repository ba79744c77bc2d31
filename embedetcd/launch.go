package embedetcd

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// loneMember is the peer URL of a server without peers. etcd needs one to name the
// member by; nothing listens there.
const loneMember = "127.0.0.1:2380"

// etcdConfig translates a Config, with its defaults filled in, for etcd.
func etcdConfig(c Config, s *Server, listen string) *embed.Config {
	e := embed.NewConfig()
	e.Dir = s.dir.path
	e.Name = c.Name
	e.TickMs = uint(c.HeartbeatInterval.Milliseconds())
	e.ElectionMs = uint(c.ElectionTimeout.Milliseconds())
	e.UnsafeNoFsync = c.UnsafeNoFsync
	e.BcryptCost = uint(c.BcryptCost)
	e.ListenClientUrls = []url.URL{listenURL(listen)}
	e.AdvertiseClientUrls = []url.URL{httpURL(reachable(listen))}
	if len(c.Peers) == 0 {
		e.ListenPeerUrls = nil
		e.AdvertisePeerUrls = []url.URL{httpURL(loneMember)}
		// etcd derives the cluster id from the token. It must differ from one new
		// data directory to the next, or clients cannot see that history was lost.
		e.InitialClusterToken = rand.Text()
	} else {
		e.ListenPeerUrls = []url.URL{listenURL(c.Peers[c.Name])}
		e.AdvertisePeerUrls = []url.URL{httpURL(c.Peers[c.Name])}
		e.InitialClusterToken = c.Token
	}
	e.InitialCluster = initialCluster(c)
	// Watches and elections write without end; without compaction the database
	// grows to etcd's quota and then refuses writes.
	e.AutoCompactionMode = embed.CompactorModePeriodic
	e.AutoCompactionRetention = "1h"
	e.EnableGRPCGateway = false // JSON over HTTP is of no use here and costs a connection
	e.ServiceRegister = s.served
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(c.Logger, s.rpc, s.closing))
	return e
}

// initialCluster writes the members the way etcd's flag wants them.
func initialCluster(c Config) string {
	if len(c.Peers) == 0 {
		return c.Name + "=http://" + loneMember
	}
	var members []string
	for name, address := range c.Peers {
		members = append(members, name+"=http://"+address)
	}
	slices.Sort(members)
	return strings.Join(members, ",")
}

func httpURL(address string) url.URL { return url.URL{Scheme: "http", Host: address} }

// listenURL is httpURL for a listener: etcd has no empty host.
func listenURL(address string) url.URL {
	if host, port, _ := net.SplitHostPort(address); host == "" {
		address = net.JoinHostPort("0.0.0.0", port)
	}
	return httpURL(address)
}

// startError says what went wrong while etcd started, and what to do.
func startError(c Config, dir, listen string, cause error) error {
	var path *fs.PathError
	switch {
	case errors.Is(cause, syscall.EADDRINUSE):
		if peer, ok := c.Peers[c.Name]; ok {
			listen += " or " + peer
		}
		return listenError("ListenClient or Peers", listen, cause)
	case errors.As(cause, &path), errors.Is(cause, fs.ErrPermission):
		return unusable(dir, cause)
	default:
		return fmt.Errorf("embedetcd: etcd did not start: see its log for the reason, set Logger if there is none (%w)",
			cause)
	}
}
