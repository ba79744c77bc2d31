//go:build unix

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/node"
)

// faultyEnv makes a copy of the test binary a faulty controller. It holds the configuration.
const faultyEnv = "GOVERSE_INTEGRATION_FAULTY_CONTROLLER"

// faultyConfig configures the controller's addresses and its fault.
type faultyConfig struct {
	Etcd, Listen, HTTP string
	// Anywhere makes any node write, with the leader's token. Otherwise the leader alone writes, but without
	// its fence and without checking whether it has already carried the write out.
	Anywhere bool
}

func faultyProgram(encoded string) int {
	if err := runFaulty(encoded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runFaulty(encoded string) error {
	var cfg faultyConfig
	if err := json.Unmarshal([]byte(encoded), &cfg); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.Listen})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.Etcd, EtcdPrefix: controllerPrefix,
		HTTPAddress: cfg.HTTP, Sharding: cluster.Sharding{Off: true}}, n)
	if err != nil {
		return err
	}
	etcd, err := cluster.NewEtcdClient(cluster.Config{EtcdAddress: cfg.Etcd})
	if err != nil {
		return err
	}
	defer etcd.Close() // it is not read any more
	l, err := net.Listen("tcp", cfg.HTTP)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", httpapi.New(c, httpapi.Options{}))
	mux.HandleFunc("/configs/{name}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		leader := c.Leader()
		if err != nil || leader.Address == "" || !cfg.Anywhere && !c.IsLeader() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		a := writeAnswer{ID: r.Header.Get("Idempotency-Key"), Name: r.PathValue("name"), Done: "put", Node: cfg.Listen,
			Token: leader.Token}
		record, _ := json.Marshal(a) // cannot fail
		data := controllerPrefix + "-data/"
		if _, err := etcd.Txn(r.Context()).Then(clientv3.OpPut(data+"configs/"+url.PathEscape(a.Name), string(body)),
			clientv3.OpPut(data+"writes/"+a.ID, string(record))).Commit(); err != nil {
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		_, _ = w.Write(record)
	})
	web := httpapi.Serve(l, mux, nil)
	if err := c.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	stopping := context.WithoutCancel(ctx)
	return errors.Join(c.Stop(stopping), web.Stop(stopping))
}

// The other tests' judge detects a controller that writes where it does not lead, and one that carries out a
// repeated write twice.
func TestLeaderOnlyFindsFaults(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"anywhere": "the leader was", "again": "took effect twice"} {
		t.Run(name, func(t *testing.T) {
			etcd := kit.StartEtcd(t, procs.Etcd37)
			client := etcdtest.Dial(t, etcd.Endpoint)
			c := &controllers{T: t, etcd: etcd.Endpoint, client: client}
			c.history = recordWrites(t, client, controllerPrefix+"/leader/", controllerPrefix+"-data/")
			addresses := kit.Addresses(t, 6)
			copy(c.nodes[:], addresses[:3])
			copy(c.http[:], addresses[3:])
			self, err := os.Executable()
			require.NoError(t, err)
			for i := range c.nodes {
				config, err := json.Marshal(faultyConfig{Etcd: c.etcd, Listen: c.nodes[i], HTTP: c.http[i],
					Anywhere: name == "anywhere"})
				require.NoError(t, err)
				c.processes[i] = kit.Start(t, "faulty controller "+c.nodes[i], self, nil,
					[]string{faultyEnv + "=" + string(config)})
			}
			for i := range c.nodes {
				c.ready(i)
			}
			c.observer = observe(t, client)
			w := &writers{t: t, urls: c.urls(), acknowledged: map[string]writeAnswer{}, stop: func() {},
				client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
			for n := range 20 {
				w.write(n)
				w.write(n / 5) // an earlier write again
			}
			err = judgeWrites(c.history.eventsToNow(t, client), c.history.queue, c.history.data, w.acknowledged)
			require.ErrorContains(t, err, want)
			if name == "again" {
				require.False(t, strings.Contains(err.Error(), "the leader was"), "nothing else is wrong: %v", err)
			}
		})
	}
}
