package daemon

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// rejoinInterval is the pause before a member of etcd that cannot join its cluster tries again. lostLogInterval is the
	// interval between its log lines.
	rejoinInterval, lostLogInterval = time.Second, 30 * time.Second
	// dialRetryInterval is the pause between attempts to log in to the embedded etcd.
	dialRetryInterval = 500 * time.Millisecond
	// followInterval is the interval at which the members of etcd, known in memory, are compared with the
	// endpoints.
	followInterval = time.Second
)

// startEtcd starts the embedded etcd. If the other members do not admit this one, it logs the remedy and
// retries until the operator has replaced the member, or ctx ends.
func (d *Daemon) startEtcd(ctx context.Context) (err error) {
	etcd := d.cfg.Etcd
	etcd.Logger = d.log
	d.warnPlaintext()
	var said time.Time
	for {
		d.etcd, err = embedetcd.Start(ctx, etcd)
		if err == nil {
			return nil
		}
		err = etcdError(etcd, err)
		if !errors.Is(err, embedetcd.ErrMemberLost) && !errors.Is(err, embedetcd.ErrNotMember) {
			return err
		}
		if time.Since(said) > lostLogInterval {
			d.log.Error("this member of etcd cannot start: " + err.Error())
			said = time.Now()
		}
		if !wait.For(ctx, rejoinInterval) {
			return err
		}
	}
}

// dialEtcd creates the node's client of the embedded etcd, and logs in if a user is configured.
func (d *Daemon) dialEtcd(ctx context.Context, cfg cluster.Config) (*clientv3.Client, error) {
	cfg.Client, cfg.EtcdAddress = nil, strings.Join(d.etcd.Endpoints(), ",")
	cfg.FixedEndpoints = true // followMembers takes them from the embedded member
	for {
		client, err := cluster.NewEtcdClient(cfg)
		if err == nil || !errors.Is(err, cluster.ErrEtcdUnreachable) {
			return client, err
		}
		if !wait.For(ctx, dialRetryInterval) {
			return nil, err
		}
	}
}

// followMembers sets the endpoints of the node's client to the members of etcd, until ctx ends. The client uses
// all members at all times, because the node's own member still answers when it is cut off from the others.
func (d *Daemon) followMembers(ctx context.Context) {
	again := time.NewTicker(followInterval)
	defer again.Stop()
	connected := false // set once: SetEndpoints races with the client's first connection attempt
	for {
		connected = connected || d.tcpClient.ActiveConnection().GetState() == connectivity.Ready
		if now := d.etcd.Endpoints(); connected && !slices.Equal(now, d.tcpClient.Endpoints()) {
			d.log.Debug("the members of etcd have changed", "endpoints", strings.Join(now, ","))
			d.tcpClient.SetEndpoints(now...)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// warnPlaintext logs a warning if members of etcd communicate over a network without TLS.
func (d *Daemon) warnPlaintext() {
	etcd := d.cfg.Etcd
	if etcd.PeerTLS.CertFile != "" {
		return
	}
	for _, address := range etcd.Peers {
		if host, _, err := net.SplitHostPort(address); err == nil && !IsLoopbackHost(host) {
			d.log.Warn("etcd peer traffic is not encrypted: any host that reaches the peer addresses can read and write all "+
				"data; give --etcd-peer-cert, --etcd-peer-key and --etcd-peer-ca, or keep them in a network you trust",
				"peer", address)
			return
		}
	}
}

// IsLoopbackHost reports whether the host is only reachable from this machine.
func IsLoopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// logEtcdAddress logs the address at which further nodes reach the embedded etcd. If etcd listens on every interface,
// the only address known here is a loopback address, so the line has the port alone.
func (d *Daemon) logEtcdAddress() {
	endpoint, dir := d.etcd.Endpoint(), d.cfg.Etcd.DataDir
	if len(d.cfg.Etcd.Peers) > 0 {
		d.log.Info("embedded etcd serves as one of several members; further nodes join with --etcd",
			"member", d.cfg.Etcd.Name, "etcd", strings.Join(d.etcd.Endpoints(), ","), "data_dir", dir)
		return
	}
	host, _, err := net.SplitHostPort(d.cfg.Etcd.ListenClient)
	if ip, perr := netip.ParseAddr(host); err == nil && (host == "" || perr == nil && ip.Unmap().IsUnspecified()) {
		_, port, _ := net.SplitHostPort(endpoint)
		d.log.Info("embedded etcd serves on every interface; further nodes join with --etcd, this host's address and the "+
			"port", "port", port, "data_dir", dir)
		return
	}
	if d.cfg.Etcd.ClientTLS.CertFile != "" {
		endpoint = "https://" + endpoint
	}
	d.log.Info("embedded etcd serves; further nodes join with --etcd", "etcd", endpoint, "data_dir", dir)
}
