//go:build unix

package procs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
)

// serveEnv makes a copy of the test binary an etcd server; it holds serveConfig.
const serveEnv = "GOVERSE_INTEGRATION_SERVE_ETCD"

// leastBcryptCost is the least that bcrypt allows. Checking a password is hard work on
// purpose, and on a busy machine takes longer than anybody waits for the answer.
const leastBcryptCost = 4

// serveConfig is all that differs from etcd's own defaults. Peers are all members'
// addresses for each other; none: the only member.
type serveConfig struct {
	DataDir, Client, Peer string
	Peers                 []string
	Passwords             Passwords
}

// MemberCommand is the command of one member of an etcd cluster, in a copy of the test
// binary: its data directory, its addresses for clients and peers, and those for peers
// of all members.
func MemberCommand(dir, client, peer string, peers []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(serveConfig{DataDir: dir, Client: client, Peer: peer, Peers: peers})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(environment(), serveEnv+"="+string(config))
	return cmd, nil
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
	cfg.BcryptCost = uint(cmp.Or(config.Passwords.BcryptCost, leastBcryptCost))
	cfg.AuthTokenTTL = uint(cmp.Or(config.Passwords.TokenTTL, 300))
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return complain(err)
	}
	return complain(fmt.Errorf("etcd ended: %w", <-server.Err()))
}
