//go:build unix

package procs

import (
	"encoding/json"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// serveEnv makes a copy of the test binary an etcd server; it holds serveConfig.
const serveEnv = "GOVERSE_INTEGRATION_SERVE_ETCD"

// leastBcryptCost is the least that bcrypt allows. Checking a password is hard work on
// purpose, and on a busy machine takes longer than anybody waits for the answer.
const leastBcryptCost = 4

// serveConfig is all that differs from etcd's own defaults.
type serveConfig struct{ DataDir, Client, Peer string }

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
	cfg.BcryptCost = leastBcryptCost
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return complain(err)
	}
	return complain(fmt.Errorf("etcd ended: %w", <-server.Err()))
}
