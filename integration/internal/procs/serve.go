//go:build unix

package procs

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// serveEnv makes a copy of the test binary an etcd server; it holds serveConfig.
const serveEnv = "GOVERSE_INTEGRATION_SERVE_ETCD"

// leastBcryptCost is the least that bcrypt allows. Checking a password is hard work on
// purpose, and on a busy machine takes longer than anybody waits for the answer.
const leastBcryptCost = 4

// serveConfig is all that differs from etcd's own defaults. Peers are all members'
// addresses for each other; none: the only member. Election is the election time-out in
// milliseconds, 0 for etcd's default; heartbeats come ten times as often.
type serveConfig struct {
	DataDir, Client, Peer string
	Peers                 []string
	Passwords             Passwords
	Election              int
	// TLS is for the client port, whose clients must show a certificate of its authority; nil: plain text.
	TLS *Certificates
	// Joins are the members of a cluster that is there already, as etcd's flag wants them; "": it begins.
	Joins string
}

// serve is an etcd server as a process of its own: it runs until it is killed.
func serve(encoded string) int {
	var config serveConfig
	if err := json.Unmarshal([]byte(encoded), &config); err != nil {
		return complain(err)
	}
	cfg := embed.NewConfig()
	cfg.Dir = config.DataDir
	client, peer := []url.URL{{Scheme: "http", Host: config.Client}}, []url.URL{{Scheme: "http", Host: config.Peer}}
	if c := config.TLS; c != nil {
		client[0].Scheme = "https"
		cfg.ClientTLSInfo = transport.TLSInfo{CertFile: c.Cert, KeyFile: c.Key, TrustedCAFile: c.CA, ClientCertAuth: true,
			SkipClientSANVerify: true}
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = client, client
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peer, peer
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.InitialClusterToken = config.Peer
	if len(config.Peers) > 0 {
		cfg.Name = config.Peer
		var all []string
		for _, p := range config.Peers {
			all = append(all, p+"=http://"+p)
		}
		cfg.InitialCluster = strings.Join(all, ",")
		cfg.InitialClusterToken = strings.Join(config.Peers, ",")
	}
	if config.Joins != "" {
		cfg.Name, cfg.InitialCluster, cfg.ClusterState = config.Peer, config.Joins, embed.ClusterStateFlagExisting
	}
	cfg.BcryptCost = uint(cmp.Or(config.Passwords.BcryptCost, leastBcryptCost))
	cfg.AuthTokenTTL = uint(cmp.Or(config.Passwords.TokenTTL, 300))
	if config.Election > 0 {
		cfg.ElectionMs, cfg.TickMs = uint(config.Election), uint(config.Election/heartbeats)
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return complain(err)
	}
	go obey(os.Stdin, server.Server) // ends with the process, for it waits for input
	return complain(fmt.Errorf("etcd ended: %w", <-server.Err()))
}

// What a member of etcd 3.7 is sent on its standard input, a line each: to drop what raft says
// to another member and hears from it, or to do so no longer. The peer's address follows.
const (
	CutPeer  = "cut "
	MendPeer = "connect "
)

// obey does what in says. What members ask each other over HTTP is not dropped; see
// embedetcd.Cluster.IsolateMember.
func obey(in io.Reader, server *etcdserver.EtcdServer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		for _, m := range server.Cluster().Members() {
			switch lines.Text() {
			case CutPeer + m.Name:
				server.CutPeer(m.ID)
			case MendPeer + m.Name:
				server.MendPeer(m.ID)
			}
		}
	}
}
