//go:build linux

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/node"
)

var (
	littleTTL = flag.Int("little.ttl", 0, "the TTL of nodes with little processor time, in seconds; 10 in the full run; "+
		"0 skips it")
	littleLasts = flag.Duration("little.lasts", 15*time.Second, "how long they are looked at; a minute in the full run")
)

// busyEnv makes a copy of the test binary a busy node. It holds a busyConfig.
const busyEnv = "GOVERSE_INTEGRATION_BUSY"

type busyConfig struct {
	Etcd, Prefix, HTTP string
	TTL, Busy          int
}

func init() {
	if config, asked := os.LookupEnv(busyEnv); asked {
		if err := runBusy(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// runBusy runs a node, next to goroutines that compute all the time, until SIGTERM.
func runBusy(encoded string) error {
	var cfg busyConfig
	if err := json.Unmarshal([]byte(encoded), &cfg); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	c, err := cluster.NewClusterWithNode(cluster.Config{EtcdAddress: cfg.Etcd, EtcdPrefix: cfg.Prefix,
		LeaderElectionTTL: cfg.TTL, Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})}, n)
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.HTTP)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	server := &http.Server{Handler: httpapi.New(c, httpapi.Options{})}
	wg.Go(func() { _ = server.Serve(listener) })
	for range cfg.Busy {
		wg.Go(func() {
			for n := 0; ; n++ {
				if n%1_000_000 == 0 && ctx.Err() != nil {
					return
				}
			}
		})
	}
	<-ctx.Done()
	err = server.Close()
	wg.Wait()
	stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	return errors.Join(err, c.Stop(stopping))
}

// limitCPU limits a process to so many thousandths of a processor. On a machine without such a cgroup, it
// alternately stops and continues the process.
func limitCPU(t *testing.T, p *procs.Process, thousandths int) {
	t.Helper()
	set := func(file, text string) error {
		f, err := os.OpenFile(file, os.O_WRONLY, 0) // an existing one
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close())
	}
	for _, c := range []struct{ root, file, text string }{
		{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", strconv.Itoa(thousandths * 100)},
		{"/sys/fs/cgroup", "cpu.max", fmt.Sprintf("%d 100000", thousandths*100)},
	} {
		dir, err := os.MkdirTemp(c.root, "goverse-test-")
		if err != nil {
			continue
		}
		if err = set(filepath.Join(dir, c.file), c.text); err == nil {
			err = set(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(p.Pid()))
		}
		t.Cleanup(func() {
			_ = p.Close()
			procs.Await(t, patience, "the cgroup is empty", func() error { return os.Remove(dir) })
		})
		if err == nil {
			return
		}
		t.Logf("%s: %v", dir, err)
	}
	t.Log("no cgroup: it is stopped and goes on by turns")
	run := time.Duration(thousandths) * 200 * time.Microsecond
	done, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(done); <-ended })
	go func() {
		defer close(ended)
		for stopped := false; ; stopped = !stopped {
			sig, lasts := syscall.SIGCONT, run
			if !stopped {
				sig, lasts = syscall.SIGSTOP, 200*time.Millisecond-run
			}
			_ = syscall.Kill(p.Pid(), sig)
			select {
			case <-time.After(lasts):
			case <-done:
				_ = syscall.Kill(p.Pid(), syscall.SIGCONT)
				return
			}
		}
	}()
}

// A node has so little processor time that it is paused again and again, and etcd elects another leader within
// its TTL. It does not hold its session without effect: it continues to lead, or gives the session up so that
// another node, or it again, can lead.
func TestLittleProcessorTimeAndAnotherTermOfRaft(t *testing.T) {
	if *littleTTL == 0 {
		t.Skip("takes half a minute, and a machine with nothing else to do: give -little.ttl")
	}
	etcd := kit.StartEtcd(t, procs.Etcd37)
	type little struct {
		name        string
		thousandths int
		another     bool
		urls        []string
		processes   []*procs.Process
	}
	all := []*little{{name: "300m", thousandths: 300}, {name: "200m", thousandths: 200},
		{name: "100m and another", thousandths: 100, another: true}}
	if *littleTTL >= 10 { // less is too short for a renewal on a machine busy with other tests
		all = append(all, &little{name: "100m", thousandths: 100})
	}
	client := &http.Client{Timeout: 2 * time.Second}
	leads := func(url string) bool {
		resp, err := client.Get(url)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}
	for i, l := range all {
		start := func(busy int) {
			address := kit.Addresses(t, 1)[0]
			config, err := json.Marshal(busyConfig{Etcd: etcd.Endpoint, Prefix: fmt.Sprint("/little-", i), HTTP: address,
				TTL: *littleTTL, Busy: busy})
			require.NoError(t, err)
			self, err := os.Executable()
			require.NoError(t, err)
			p := kit.Start(t, l.name, self, nil, []string{busyEnv + "=" + string(config), "GOMAXPROCS=2"})
			l.urls, l.processes = append(l.urls, "http://"+address+"/leaderz"), append(l.processes, p)
		}
		start(4)
		procs.Await(t, patience, l.name+" leads", func() error {
			if !leads(l.urls[0]) {
				return errors.New("not yet")
			}
			return nil
		})
		if l.another {
			start(0)
		}
		limitCPU(t, l.processes[0], l.thousandths)
	}
	etcd.Kill(t)
	etcd.Restart(t)
	restarted, aTTL := time.Now(), time.Duration(*littleTTL)*time.Second
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, l := range all {
		wg.Go(func() {
			// After one TTL, or after another one if the session is given up.
			from, gaveUp, asked, led := restarted.Add(aTTL), false, 0, 0
			for ; time.Now().Before(from.Add(*littleLasts)); procs.SleepUntil(time.Now().Add(50 * time.Millisecond)) {
				var one sync.WaitGroup
				answers := make([]bool, len(l.urls))
				for i, url := range l.urls {
					one.Go(func() { answers[i] = leads(url) })
				}
				one.Wait()
				if !gaveUp && strings.Contains(l.processes[0].Output(), string(session.ReasonStarved)) {
					gaveUp, asked, led = true, 0, 0
					from = time.Now().Add(aTTL)
				}
				if time.Now().Before(from) {
					continue
				}
				if asked++; slices.Contains(answers, true) {
					led++
				}
			}
			t.Logf("%s: gave the session up: %t; somebody led in %d of %d samples", l.name, gaveUp, led, asked)
			least := 0.95
			if !gaveUp {
				// What pauses may cost a session before it is given up, see deadline.Pauses.
				least -= float64(aTTL/5) / float64(*littleLasts)
			}
			if asked == 0 || float64(led) < least*float64(asked) {
				t.Errorf("%s: somebody led in %d of %d samples, want %.0f %%", l.name, led, asked, 100*least)
			}
		})
	}
}
