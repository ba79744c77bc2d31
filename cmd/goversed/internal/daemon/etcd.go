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
)

const (
	// lostRetry is the pause before a member whose data is lost looks again whether it may join, and lostSay how
	// often it says so.
	lostRetry, lostSay = time.Second, 30 * time.Second
	// dialRetry is the pause before another attempt to log in at the embedded etcd.
	dialRetry = 500 * time.Millisecond
	// followEvery is the time between two looks whether the members of etcd have changed: in memory.
	followEvery = time.Second
)

// startEtcd starts the embedded etcd. A member that the others do not let in waits until somebody has
// replaced it, and says how.
func (d *Daemon) startEtcd(ctx context.Context) (err error) {
	etcd := d.cfg.Etcd
	etcd.Logger = d.log
	d.warnPlain()
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
		if time.Since(said) > lostSay {
			d.log.Error("this member of etcd cannot start: " + err.Error())
			said = time.Now()
		}
		select {
		case <-time.After(lostRetry):
		case <-ctx.Done():
			return err
		}
	}
}

// dial makes the node's client of the embedded etcd, which logs in if there is a user.
func (d *Daemon) dial(ctx context.Context, cfg cluster.Config) (*clientv3.Client, error) {
	cfg.Client, cfg.EtcdAddress = nil, strings.Join(d.etcd.Endpoints(), ",")
	cfg.FixedEndpoints = true // the embedded member knows the others: see followMembers
	for {
		client, err := cluster.NewEtcdClient(cfg)
		if err == nil || !errors.Is(err, cluster.ErrEtcdUnreachable) {
			return client, err
		}
		select {
		case <-time.After(dialRetry):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// followMembers keeps the endpoints of the node's client those of etcd's members, until ctx ends. The own member
// answers also where it is cut off from the others, so these are used as well, and not only when it does not answer.
func (d *Daemon) followMembers(ctx context.Context) {
	again := time.NewTicker(followEvery)
	defer again.Stop()
	connected := false // once: the client's first connecting and SetEndpoints, at the same time, are a data race in it
	for {
		connected = connected || d.dialled.ActiveConnection().GetState() == connectivity.Ready
		if now := d.etcd.Endpoints(); connected && !slices.Equal(now, d.dialled.Endpoints()) {
			d.log.Debug("the members of etcd have changed", "endpoints", strings.Join(now, ","))
			d.dialled.SetEndpoints(now...)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// warnPlain warns of members that talk over a network without TLS.
func (d *Daemon) warnPlain() {
	etcd := d.cfg.Etcd
	if etcd.PeerTLS.CertFile != "" {
		return
	}
	for _, address := range etcd.Peers {
		if host, _, err := net.SplitHostPort(address); err == nil && !loopbackHost(host) {
			d.log.Warn("etcd's members talk without TLS: who reaches their peer addresses can read and write everything; give "+
				"--etcd-peer-cert, --etcd-peer-key and --etcd-peer-ca, or keep them in a network you trust", "peer", address)
			return
		}
	}
}

// loopbackHost reports whether a host is reached from this machine alone.
func loopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// sayEtcd says where further nodes find the embedded etcd. Served on every interface,
// it is known here by an address that only means this machine.
func (d *Daemon) sayEtcd() {
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
