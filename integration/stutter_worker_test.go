//go:build linux

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/node"
)

// stutterWorkerEnv makes a copy of the test binary a worker. It holds a stutterWorkerConfig.
const stutterWorkerEnv = "GOVERSE_INTEGRATION_STUTTER_WORKER"

const (
	workPrefix  = "/it-work"
	workersLock = "workers"
	// workShards is the number of the workers' shards: each is sampled every millisecond.
	workShards = 8
)

type stutterWorkerConfig struct {
	Name, Advertise, HTTP, Etcd, Record string
	TTL                                 int
}

func init() {
	if config, asked := os.LookupEnv(stutterWorkerEnv); asked {
		os.Exit(runStutterWorker(config))
	}
}

func (c stutterWorkerConfig) encode(t testing.TB) string {
	text, err := json.Marshal(c)
	require.NoError(t, err)
	return string(text)
}

// runStutterWorker runs one node of a cluster. It records every millisecond whether it leads, which shards it
// serves, and whether it holds the lock that it always tries to acquire. SIGUSR1 makes it release the lock and
// acquire it again; SIGTERM ends it.
func runStutterWorker(encoded string) int {
	if err := stutterWorker(encoded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func stutterWorker(encoded string) (err error) {
	var cfg stutterWorkerConfig
	if err := json.Unmarshal([]byte(encoded), &cfg); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	yield := make(chan os.Signal, 1)
	signal.Notify(yield, syscall.SIGUSR1)
	file, err := os.Create(cfg.Record)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rec := history.NewRecorder(file, cfg.Advertise)
	defer func() { err = errors.Join(err, rec.Stop()) }()
	log := hclog.New(&hclog.LoggerOptions{Name: cfg.Name, Level: hclog.Info, Output: os.Stderr})
	n, err := node.NewNode(node.Config{AdvertiseAddress: cfg.Advertise, Logger: log})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.Etcd, EtcdPrefix: workPrefix,
		LeaderElectionTTL: cfg.TTL, Logger: log,
		Sharding: cluster.Sharding{Shards: workShards, MovesPerMinute: 1 << 20}}, n)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	rec.Add(history.NodeOf(cfg.Name, c).WithShards(c))
	if err := c.Start(ctx); err != nil {
		return err
	}
	l, err := net.Listen("tcp", cfg.HTTP)
	if err != nil {
		return err
	}
	status := httpapi.Serve(l, httpapi.New(c, httpapi.Options{}), log)
	holdLockRepeatedly(ctx, rec.Locks(cfg.Name, c.Locks()), yield)
	stopping, cancelStop := context.WithTimeout(context.Background(), patience)
	defer cancelStop()
	return errors.Join(status.Stop(stopping), c.Stop(stopping))
}

// holdLockRepeatedly holds the lock for as long as possible, again and again, until ctx ends.
func holdLockRepeatedly(ctx context.Context, locks *history.Locks, yield <-chan os.Signal) {
	for ctx.Err() == nil {
		h, err := locks.Acquire(ctx, history.LockRequest{Name: workersLock})
		if err != nil {
			wait.For(ctx, 100*time.Millisecond)
			continue
		}
		select {
		case <-h.Context().Done():
		case <-yield:
		case <-ctx.Done():
		}
		attempt, cancel := context.WithTimeout(context.Background(), patience)
		_ = h.Release(attempt) // fails for a lost lock, which the recording shows
		cancel()
	}
}
