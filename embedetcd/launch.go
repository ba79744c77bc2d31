package embedetcd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/tlsutil"
	"go.etcd.io/etcd/server/v3/embed"
)

// lonePeerURL is the peer URL of a server without peers. etcd needs one to identify the member; nothing listens
// there.
const lonePeerURL = "127.0.0.1:2380"

// etcdConfig returns the etcd configuration for c, which must have its defaults filled in.
func etcdConfig(c Config, s *Server, b bootPlan, listen string) *embed.Config {
	e := embed.NewConfig()
	e.Dir = s.dir.path
	e.Name = c.Name
	e.TickMs = uint(c.HeartbeatInterval.Milliseconds())
	e.ElectionMs = uint(c.ElectionTimeout.Milliseconds())
	e.UnsafeNoFsync = c.UnsafeNoFsync
	e.BcryptCost = uint(c.BcryptCost)
	e.ListenClientUrls = []url.URL{listenURL(c.ClientTLS, listen)}
	e.AdvertiseClientUrls = []url.URL{urlOf(c.ClientTLS, advertisedAddress(c, listen))}
	e.ClientTLSInfo, e.PeerTLSInfo = c.ClientTLS.transportInfo(), c.PeerTLS.transportInfo()
	e.TlsMinVersion = string(tlsutil.TLSVersion12)
	if len(c.Peers) == 0 {
		e.ListenPeerUrls = nil
		e.AdvertisePeerUrls = []url.URL{urlOf(TLS{}, lonePeerURL)}
	} else {
		e.ListenPeerUrls = []url.URL{listenURL(c.PeerTLS, c.listenPeer())}
		e.AdvertisePeerUrls = []url.URL{urlOf(c.PeerTLS, c.Peers[c.Name])}
	}
	e.InitialCluster, e.InitialClusterToken = b.cluster, b.token
	if b.joins {
		e.ClusterState = embed.ClusterStateFlagExisting
	}
	// Watches and elections write all the time. Without compaction the database grows to etcd's quota and then
	// refuses writes.
	e.AutoCompactionMode = embed.CompactorModePeriodic
	e.AutoCompactionRetention = "1h"
	e.EnableGRPCGateway = false // JSON over HTTP is not needed here and costs a connection
	e.ServiceRegister = s.setGRPC
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(c.Logger, s.rpc, s.closing))
	return e
}

// initialCluster formats the members as etcd's initial-cluster flag expects them.
func initialCluster(c Config) string {
	if len(c.Peers) == 0 {
		return c.Name + "=http://" + lonePeerURL
	}
	var members []string
	for name, address := range c.Peers {
		members = append(members, name+"="+c.PeerTLS.scheme()+"://"+address)
	}
	slices.Sort(members)
	return strings.Join(members, ",")
}

func urlOf(t TLS, address string) url.URL { return url.URL{Scheme: t.scheme(), Host: address} }

// listenURL is like urlOf, but for a listener: etcd does not accept an empty host.
func listenURL(t TLS, address string) url.URL {
	if host, port, _ := net.SplitHostPort(address); host == "" {
		address = net.JoinHostPort("0.0.0.0", port)
	}
	return urlOf(t, address)
}

// advertisedAddress returns the client address to advertise for a server that listens at listen.
func advertisedAddress(c Config, listen string) string {
	if c.AdvertiseClient != "" {
		return c.AdvertiseClient
	}
	return reachableAddress(listen)
}

// startError returns the error for a failed start of etcd, with its cause and a remedy.
func startError(c Config, dir, listen string, cause error) error {
	var path *fs.PathError
	switch {
	case errors.Is(cause, syscall.EADDRINUSE):
		if len(c.Peers) > 0 {
			listen += " or " + c.listenPeer()
		}
		return listenError("ListenClient or Peers", listen, cause)
	case errors.As(cause, &path), errors.Is(cause, fs.ErrPermission):
		return unusableError(dir, cause)
	default:
		return fmt.Errorf("embedetcd: etcd did not start: see its log for the reason, set Logger if there is none (%w)",
			cause)
	}
}
