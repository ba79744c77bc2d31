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

// serveEnv names the environment variable that makes a copy of the test binary an etcd server. It holds a
// serveConfig.
const serveEnv = "GOVERSE_INTEGRATION_SERVE_ETCD"

// leastBcryptCost is the minimum that bcrypt allows. A password check is expensive by design, and on a busy
// machine it takes longer than clients wait.
const leastBcryptCost = 4

// serveConfig holds the differences from etcd's own defaults. Peers holds the peer addresses of all members; if
// it is empty, the server is the only member. Election is the election timeout in milliseconds, 0 for etcd's
// default; heartbeats are ten times as frequent.
type serveConfig struct {
	DataDir, Client, Peer string
	Peers                 []string
	Passwords             Passwords
	Election              int
	// TLS secures the client port; clients must present a certificate of its authority. nil means plain text.
	TLS *Certificates
	// Joins names the members of an existing cluster, in the form of etcd's flag; "" means a new cluster.
	Joins string
}

// runEtcd runs an etcd server until the process is killed.
func runEtcd(encoded string) int {
	var config serveConfig
	if err := json.Unmarshal([]byte(encoded), &config); err != nil {
		return reportError(err)
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
		cfg.ElectionMs, cfg.TickMs = uint(config.Election), uint(config.Election/heartbeatsPerElection)
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return reportError(err)
	}
	go followInstructions(os.Stdin, server.Server) // ends with the process, because it waits for input
	return reportError(fmt.Errorf("etcd ended: %w", <-server.Err()))
}

// These are the instructions that a member of etcd 3.7 accepts on its standard input, one per line: to drop
// raft's messages to and from another member, or to stop dropping them. The peer's address follows.
const (
	CutPeer  = "cut "
	MendPeer = "connect "
)

// followInstructions carries out the instructions read from in. Requests between members over HTTP are not dropped; see
// embedetcd.Cluster.IsolateMember.
func followInstructions(in io.Reader, server *etcdserver.EtcdServer) {
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
