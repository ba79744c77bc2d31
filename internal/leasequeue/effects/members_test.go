//go:build unix

package effects_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/leaktest"
)

// memberEnv makes a copy of the test binary an etcd server. It holds an embedetcd.Config.
const memberEnv = "GOVERSE_TEST_ONCE_ETCD"

func TestMain(m *testing.M) {
	if config, asked := os.LookupEnv(memberEnv); asked {
		serve(config)
		return
	}
	leaktest.SetParallel()
	goleak.VerifyTestMain(m)
}

// members is an etcd of one or more members with etcd's default timing, each in a process of its own.
type members struct {
	dirs, endpoints []string
	peers           map[string]string
	clients         []*clientv3.Client // one per member
	processes       []*fault.Process
}

func startMembers(t *testing.T, n int) *members {
	t.Helper()
	m := &members{peers: map[string]string{}, processes: make([]*fault.Process, n)}
	for i := range n {
		m.dirs, m.endpoints = append(m.dirs, t.TempDir()), append(m.endpoints, address(t))
		m.peers[name(i)] = address(t)
	}
	for i := range n {
		m.start(t, i)
		t.Cleanup(func() {
			require.NoError(t, m.processes[i].Close())
			if t.Failed() {
				t.Logf("etcd %d said:\n%s", i, m.processes[i].Output())
			}
		})
	}
	for i := range n {
		m.clients = append(m.clients, etcdtest.Dial(t, m.endpoints[i]))
		m.await(t, i)
	}
	return m
}

func name(i int) string { return fmt.Sprint("m", i) }

// address returns an address without a listener.
func address(t *testing.T) string {
	t.Helper()
	address, err := port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	return address
}

func (m *members) start(t *testing.T, i int) {
	t.Helper()
	cmd, err := m.command(i)
	require.NoError(t, err)
	m.processes[i], err = fault.StartProcess(cmd)
	require.NoError(t, err)
}

func (m *members) command(i int) (*exec.Cmd, error) {
	if *program != "" {
		peer := "http://" + m.peers[name(i)]
		var all []string
		for name, address := range m.peers {
			all = append(all, name+"=http://"+address)
		}
		return exec.Command(*program, "--name="+name(i), "--data-dir="+m.dirs[i], "--initial-cluster="+strings.Join(all, ","),
			"--listen-client-urls=http://"+m.endpoints[i], "--advertise-client-urls=http://"+m.endpoints[i],
			"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer), nil
	}
	cfg := embedetcd.Config{DataDir: m.dirs[i], ListenClient: m.endpoints[i], Name: name(i)}
	if len(m.peers) > 1 {
		cfg.Peers = m.peers
	}
	encoded, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberEnv+"="+string(encoded))
	return cmd, nil
}

// serve runs an etcd server as a process of its own, until it is killed.
func serve(encoded string) {
	var cfg embedetcd.Config
	if err := json.Unmarshal([]byte(encoded), &cfg); err != nil {
		log.Fatal(err)
	}
	s, err := embedetcd.Start(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	<-s.Done()
	log.Fatal(errors.Join(errors.New("etcd ended"), s.Err()))
}

// await waits until the member answers a linearizable read.
func (m *members) await(t *testing.T, i int) {
	t.Helper()
	await(t, time.Minute, "etcd answers", func() (bool, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.clients[i].Get(ctx, "health")
		return err == nil, err
	})
}

// changeLeader makes another member etcd's leader, or kills and restarts the only one. Either way all leases
// start anew.
func (m *members) changeLeader(ctx context.Context, t *testing.T) {
	t.Helper()
	if len(m.processes) == 1 {
		_, err := m.processes[0].Kill()
		require.NoError(t, err)
		m.start(t, 0)
		m.await(t, 0)
		return
	}
	for i, client := range m.clients {
		st, err := client.Status(ctx, m.endpoints[i])
		require.NoError(t, err)
		if st.Leader != st.Header.MemberId {
			continue
		}
		next, err := m.clients[(i+1)%len(m.clients)].Status(ctx, m.endpoints[(i+1)%len(m.clients)])
		require.NoError(t, err)
		_, err = client.MoveLeader(ctx, next.Header.MemberId)
		require.NoError(t, err)
		return
	}
	require.Fail(t, "no member of etcd leads")
}

// figures holds sums over all members, except for the keys.
type figures struct {
	keys    int     // in the member that has most
	expired int     // number of leases
	cpu     float64 // seconds
	size    int     // of the largest member's database, in bytes
}

func (m *members) figures() (f figures, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for _, endpoint := range m.endpoints {
		resp, err := client.Get("http://" + endpoint + "/metrics")
		if err != nil {
			return figures{}, err
		}
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			name, text, _ := strings.Cut(lines.Text(), " ")
			value, _ := strconv.ParseFloat(text, 64) // comment lines are not numbers
			switch name {
			case "etcd_debugging_mvcc_keys_total":
				f.keys = max(f.keys, int(value))
			case "etcd_server_lease_expired_total", "etcd_debugging_server_lease_expired_total":
				f.expired += int(value)
			case "etcd_mvcc_db_total_size_in_bytes":
				f.size = max(f.size, int(value))
			case "process_cpu_seconds_total":
				f.cpu += value
			}
		}
		if err := errors.Join(lines.Err(), resp.Body.Close()); err != nil {
			return figures{}, err
		}
	}
	return f, nil
}

// await calls look again and again until it reports done.
func await(t *testing.T, within time.Duration, what string, look func() (done bool, err error)) {
	t.Helper()
	var done bool
	var err error
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		if done, err = look(); done && err == nil {
			return
		}
		<-time.After(lookInterval)
	}
	require.NoError(t, err, what)
	require.True(t, done, what)
}

// lookInterval is long, because each look costs etcd time.
const lookInterval = 100 * time.Millisecond
