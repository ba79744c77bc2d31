package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/state"
)

const startTimeout = 30 * time.Second // for etcd, and again for the first snapshot

// Run runs the cluster until ctx ends, cfg.For is over, or a write to cfg.Stdout fails; it returns nil in these
// cases. All that it started has ended when it returns. Errors are one line: of cfg (matching [ErrConfig]), of
// etcd, or of nodes that cannot start.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if cfg.Program == "" {
		cfg.Program = cfg.Command[0]
	}
	begun := time.Now()
	screen := newScreen(cfg.Stdout, cfg.Terminal != nil)
	defer screen.close()
	logs, nodeLog := screen.printLine, &logTail{}
	switch {
	case cfg.Stderr != nil:
		logs = toWriter(cfg.Stderr)
	case !cfg.Verbose:
		logs = nodeLog.addLine
	}

	dir, err := makeTempDir(os.TempDir())
	if err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	// A new etcd always logs the same warnings, so they are shown only if it fails.
	etcdLog := &logTail{}
	etcdSays := etcdLog.addLine
	if cfg.Verbose {
		etcdSays = logs
	}
	listen, err := cfg.chooseEtcdListen()
	if err != nil {
		return errors.Join(err, dir.release())
	}
	server, err := startDevEtcd(ctx, dir, listen, etcdSays)
	if err != nil {
		if ctx.Err() != nil {
			return dir.release() // ctx ended during the start
		}
		etcdLog.emitLines(screen.printLine)
		return errors.Join(err, dir.release())
	}
	if listen != cfg.EtcdListen {
		screen.printLine(fmt.Sprintf("%s is taken: etcd has another port, so give --etcd to the other commands",
			cfg.EtcdListen))
	}
	err = runWithEtcd(ctx, cfg, begun, server, screen, logs)
	if server.Err() != nil {
		etcdLog.emitLines(screen.printLine)
	}
	if err != nil {
		nodeLog.emitLines(screen.printLine)
	}
	return errors.Join(err, server.Close(), dir.release())
}

// chooseEtcdListen returns the address at which etcd listens, "" for a free port.
func (c Config) chooseEtcdListen() (string, error) {
	if c.EtcdListen == "" {
		return "", nil
	}
	err := port.Probe(c.EtcdListen)
	switch {
	case err == nil:
		return c.EtcdListen, nil
	case c.OtherPort:
		return "", nil
	case errors.Is(err, syscall.EADDRINUSE):
		return "", fmt.Errorf("--etcd-listen %s is taken: stop the process that listens there (ss -tanp shows it), or leave "+
			"the flag out", c.EtcdListen)
	}
	return "", fmt.Errorf("--etcd-listen %s: give an address and a port that this machine may listen at, like "+
		"127.0.0.1:2379 (%w)", c.EtcdListen, err)
}

func startDevEtcd(ctx context.Context, dir *tempDir, listen string, logs func(string)) (*embedetcd.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// The data is temporary, so it need not reach the disk.
	return embedetcd.Start(ctx, embedetcd.TestTiming(embedetcd.Config{
		DataDir: filepath.Join(dir.path, "etcd"), ListenClient: listen,
		Logger: newWarnLogger("etcd", logs),
	}))
}

func newWarnLogger(name string, logs func(string)) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: &lineWriter{name: name, emit: logs}})
}

// runWithEtcd runs everything that needs etcd, and returns when all of it has ended.
func runWithEtcd(ctx context.Context, cfg Config, begun time.Time, server *embedetcd.Server, screen *screen,
	logs func(string)) error {
	keys, err := state.NewKeys(devPrefix)
	if err != nil {
		return err
	}
	m := watchcache.New(watchcache.Config{Process: etcd.Process{Client: server.Client(), Keys: keys,
		Logger: newWarnLogger("dev", logs)}})
	var wg sync.WaitGroup
	defer wg.Wait()
	mirrorCtx, stopMirror := context.WithCancel(context.Background())
	defer stopMirror()
	wg.Go(func() { _ = m.Run(mirrorCtx) }) // fails only when its context ends

	ready := time.NewTimer(startTimeout)
	defer ready.Stop()
	select {
	case <-m.Ready():
	case <-ctx.Done():
		return nil
	case <-ready.C:
		return errors.New("dev: the embedded etcd did not answer in time: is this machine out of memory or disk?")
	}

	l, err := newEventLoop(cfg, begun, server.Endpoint(), m.Snapshot, screen, logs)
	if err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	screen.printLines(greetingLines(cfg, server.Endpoint(), l.slots[0].http)...)
	sub := m.Subscribe(nil)
	defer sub.Close()
	err = l.run(ctx, sub.C, server)
	screen.showBlock(nil)
	if cfg.KillEvery > 0 {
		screen.printLines(summarizeKills(l.samples, l.countOpenKills()))
	}
	return err
}

// greetingLines returns the lines that show what runs and which commands to try in another shell.
func greetingLines(cfg Config, endpoint, http string) []string {
	at := " --etcd " + endpoint
	if cfg.DefaultEtcd != "" && strings.TrimPrefix(endpoint, "http://") == cfg.DefaultEtcd {
		at = ""
	}
	lines := []string{
		fmt.Sprintf("etcd at %s, %s under %s with a TTL of %v",
			endpoint, formatCount(cfg.Nodes, "node process", "node processes"), devPrefix, cfg.TTL),
		"try in another shell:",
		"  " + cfg.Program + " status" + at,
		"  " + cfg.Program + " shards" + at,
		"  " + cfg.Program + " resign" + at,
		"  " + cfg.Program + " node --etcd " + endpoint,
		"  curl http://" + http + "/cluster/status",
		"and in a browser: " + dashboardURL(http),
	}
	if cfg.KillEvery > 0 {
		lines = append(lines, fmt.Sprintf("the leader's process is killed every %v", cfg.KillEvery))
	}
	return lines
}
