//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/wait"
)

// documentedCommand returns the command in docs/operate/etcd.md that begins so, word by word.
func documentedCommand(t *testing.T, begins string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/operate/etcd.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    goversed "); ok && strings.HasPrefix(command, begins) {
			return strings.Fields(command)
		}
	}
	t.Fatalf("docs/operate/etcd.md has no command goversed %s", begins)
	return nil
}

// embeddedCluster is three goversed processes, each with a member of etcd, started by the documented commands.
type embeddedCluster struct {
	localAddresses map[string]string // maps the documented addresses to those used here
	dir            string
	certs          *procs.Certificates // nil without TLS
	nodes          []*procs.Node       // on the machines a, b, c
}

var memberNames = []string{"a", "b", "c"}

func newEmbeddedCluster(t *testing.T, certs *procs.Certificates) *embeddedCluster {
	t.Helper()
	c := &embeddedCluster{localAddresses: map[string]string{}, dir: t.TempDir(), certs: certs,
		nodes: make([]*procs.Node, 3)}
	addresses := kit.Addresses(t, 12)
	for i := range 3 {
		for j, port := range []string{"2379", "2380", "47001", "48001"} {
			c.localAddresses[fmt.Sprintf("10.0.0.%d:%s", i+1, port)] = addresses[4*i+j]
		}
	}
	return c
}

// command returns a documented command for the machine with that number.
func (c *embeddedCluster) command(t *testing.T, begins string, machine int) []string {
	t.Helper()
	args := documentedCommand(t, begins)
	for i, arg := range args {
		switch {
		case i > 0 && args[i-1] == "--etcd-name":
			arg = memberNames[machine]
		case i > 0 && args[i-1] == "--etcd-cluster":
			if c.certs != nil {
				arg = strings.ReplaceAll(arg, "http://", "https://")
			}
		case begins == "node ":
			arg = strings.ReplaceAll(arg, "10.0.0.1:", fmt.Sprintf("10.0.0.%d:", machine+1))
		}
		for there, here := range c.localAddresses {
			arg = strings.ReplaceAll(arg, there, here)
		}
		args[i] = strings.ReplaceAll(arg, "/var/lib/goverse", c.dataDir(machine))
	}
	if c.certs == nil {
		return args
	}
	if begins == "node " {
		return append(args, "--etcd-serve-cert", c.certs.Cert, "--etcd-serve-key", c.certs.Key, "--etcd-serve-ca", c.certs.CA,
			"--etcd-peer-cert", c.certs.Cert, "--etcd-peer-key", c.certs.Key, "--etcd-peer-ca", c.certs.CA)
	}
	return append(args, "--etcd-cert", c.certs.Cert, "--etcd-key", c.certs.Key, "--etcd-cacert", c.certs.CA)
}

func (c *embeddedCluster) dataDir(machine int) string {
	return filepath.Join(c.dir, memberNames[machine])
}

func (c *embeddedCluster) endpoint(machine int) string {
	return c.localAddresses[fmt.Sprintf("10.0.0.%d:2379", machine+1)]
}

func (c *embeddedCluster) address(machine int) string {
	return c.localAddresses[fmt.Sprintf("10.0.0.%d:47001", machine+1)]
}

// start starts the process of a machine.
func (c *embeddedCluster) start(t *testing.T, machine int) {
	t.Helper()
	p := kit.Goversed(t, append(c.command(t, "node ", machine), "--ttl", "5s")...)
	c.nodes[machine] = kit.NodeAt(t, p, c.address(machine), c.localAddresses[fmt.Sprintf("10.0.0.%d:48001", machine+1)])
}

// awaitAll waits until each of these nodes sees all of them, and returns the status of the first one.
func (c *embeddedCluster) awaitAll(t *testing.T, machines ...int) procs.Status {
	t.Helper()
	var first procs.Status
	for _, i := range slices.Backward(machines) {
		first, _ = c.nodes[i].AwaitStatus(t, longPatience, "all nodes are there, and one leads", func(st procs.Status) error {
			if st.ClusterSize != len(machines) || st.LeaderID == "" || !st.ClusterReady {
				return errors.New("not yet")
			}
			return nil
		})
	}
	return first
}

const longPatience = time.Minute

// client returns a client of these machines' members.
func (c *embeddedCluster) client(t *testing.T, machines ...int) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if c.certs != nil {
		cfg.TLS = c.certs.Config(t)
	}
	for _, i := range machines {
		cfg.Endpoints = append(cfg.Endpoints, c.endpoint(i))
	}
	client, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// writePause is the pause between two writes. Without one, three members of etcd keep two cores busy.
const writePause = 5 * time.Millisecond

// startWrites writes one key after the other until stop is called. stop returns the number of confirmed writes and
// the longest time between two confirmations.
func startWrites(t *testing.T, client *clientv3.Client) (stop func() (n int, longest time.Duration)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	n, longest, failed := 0, time.Duration(0), error(nil)
	wg.Go(func() {
		last := time.Now()
		for ; ctx.Err() == nil; wait.For(ctx, writePause) {
			one, done := context.WithTimeout(clientv3.WithRequireLeader(ctx), time.Second)
			_, err := client.Put(one, fmt.Sprintf("/written/%06d", n), "x")
			done()
			switch {
			case err == nil:
				now := time.Now()
				n, longest, last = n+1, max(longest, now.Sub(last)), now
			case ctx.Err() == nil:
				failed = err
			}
		}
		longest = max(longest, time.Since(last))
	})
	both := sync.OnceValues(func() (int, time.Duration) {
		cancel()
		wg.Wait()
		if failed != nil {
			t.Logf("a write failed, the last with: %v", failed)
		}
		return n, longest
	})
	t.Cleanup(func() { both() })
	return both
}

// Three goversed processes have an etcd of their own. One machine loses its data and is replaced while the
// others serve, by the commands of docs/operate/etcd.md. Then all are killed and come back by themselves. Then
// etcd's leader stops gracefully.
func TestEmbeddedEtcdCluster(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		loseMemberData(t, newEmbeddedCluster(t, nil), 1)
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		certs := procs.NewCertificates(t)
		loseMemberData(t, newEmbeddedCluster(t, &certs), 2)
	})
}

// loseMemberData makes c lose its data while the given machine leads etcd. If that is c, etcd must first elect another
// leader, and the leadership of Goverse may move.
func loseMemberData(t *testing.T, c *embeddedCluster, etcdsLeader int) {
	c.start(t, 2) // in any order
	c.nodes[2].AwaitOutput(t, longPatience, "waiting for the other members of etcd")
	c.start(t, 0)
	c.start(t, 1)
	c.awaitAll(t, 0, 1, 2)
	members := kit.Goversed(t, c.command(t, "etcd members", 0)...)
	require.Equal(t, 0, members.Exit(t, patience), members.Output())
	require.NotContains(t, members.Output(), "no answer")
	refuse := kit.Goversed(t, c.command(t, "etcd replace", 0)...)
	require.Equal(t, 1, refuse.Exit(t, patience))
	require.Contains(t, refuse.Output(), "c answers at")

	before := c.makeLeader(t, 0)
	c.makeEtcdLeader(t, etcdsLeader)
	stop := startWrites(t, c.client(t, 0, 1))
	c.nodes[2].Kill(t)
	require.NoError(t, os.RemoveAll(c.dataDir(2)))
	c.start(t, 2)
	c.nodes[2].AwaitOutput(t, longPatience, "its data is lost; put it back, or replace the member by goversed etcd "+
		"replace c")
	began := time.Now()
	replace := kit.Goversed(t, c.command(t, "etcd replace", 0)...)
	require.Equal(t, 0, replace.Exit(t, longPatience), replace.Output())
	require.Contains(t, replace.Output(), "member c of etcd is replaced")
	replaced := time.Since(began)
	after := c.awaitAll(t, 0, 1, 2)
	if etcdsLeader != 2 {
		require.Equal(t, before.Token, after.Token, "the leader of Goverse was not disturbed")
	}
	require.GreaterOrEqual(t, after.Token, before.Token)
	n, longest := stop()
	require.Positive(t, n)
	require.Less(t, longest, 10*time.Second)
	t.Logf("the member was replaced %v after the command began; beside it %d writes, at most %v apart",
		replaced.Round(time.Millisecond), n, longest.Round(time.Millisecond))
	count, err := c.client(t, 2).Get(requestContext(t), "/written/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	require.GreaterOrEqual(t, count.Count, int64(n), "the new member has it all")

	for _, node := range c.nodes {
		node.Kill(t)
	}
	began = time.Now()
	for i := range c.nodes {
		c.start(t, i)
	}
	again := c.awaitAll(t, 0, 1, 2)
	require.Greater(t, again.Token, before.Token)
	t.Logf("after a SIGKILL of all three a node leads within %v", time.Since(began).Round(time.Millisecond))
	if c.certs == nil {
		c.restartOthers(t, c.stopEtcdsLeader(t))
	}
}

// restartOthers starts the stopped process, then restarts the others one after the other. The leadership of Goverse
// moves only when its process stops.
func (c *embeddedCluster) restartOthers(t *testing.T, stopped int) {
	t.Helper()
	c.start(t, stopped)
	c.awaitAll(t, 0, 1, 2)
	all, _ := c.statuses(t)
	term, terms := all[0].RaftTerm, map[int64]bool{}
	stop := startWrites(t, c.client(t, 0, 1, 2))
	for _, i := range []int{(stopped + 1) % 3, (stopped + 2) % 3} {
		sent := c.nodes[i].Signal(t, syscall.SIGTERM)
		st, _ := c.nodes[stopped].AwaitStatus(t, longPatience, "another leads", func(st procs.Status) error {
			if st.LeaderID == "" || st.LeaderID == c.address(i) {
				return errors.New("not yet")
			}
			return nil
		})
		terms[st.Token] = true
		t.Logf("a node of the others leads %v after the SIGTERM", time.Since(sent).Round(time.Millisecond))
		require.Equal(t, 0, c.nodes[i].Exit(t, longPatience))
		c.start(t, i)
		st = c.awaitAll(t, 0, 1, 2)
		require.True(t, terms[st.Token], "a process that joins takes no leadership away")
	}
	n, longest := stop()
	all, _ = c.statuses(t)
	require.Less(t, longest, 10*time.Second)
	t.Logf("two more were restarted; beside it %d writes, at most %v apart; raft terms: %d", n,
		longest.Round(time.Millisecond), all[0].RaftTerm-term)
}

// statuses returns the statuses of all members, and the index of etcd's leader.
func (c *embeddedCluster) statuses(t *testing.T) (all []*clientv3.StatusResponse, leader int) {
	t.Helper()
	leader = -1
	for i := range c.nodes {
		client := c.client(t, i)
		procs.Await(t, longPatience, "the member answers", func() error {
			st, err := client.Status(requestContext(t), c.endpoint(i))
			if err == nil {
				all = append(all, st)
			}
			return err
		})
		if all[i].Leader == all[i].Header.MemberId {
			leader = i
		}
	}
	return all, leader
}

// makeEtcdLeader makes the member of a machine etcd's leader.
func (c *embeddedCluster) makeEtcdLeader(t *testing.T, machine int) {
	t.Helper()
	procs.Await(t, longPatience, "the member leads etcd", func() error {
		all, leader := c.statuses(t)
		switch leader {
		case machine:
			return nil
		case -1:
			return errors.New("nobody leads")
		}
		_, err := c.client(t, leader).MoveLeader(requestContext(t), all[machine].Header.MemberId)
		return errors.Join(errors.New("it was asked to"), err)
	})
}

// makeLeader makes the node of a machine lead Goverse.
func (c *embeddedCluster) makeLeader(t *testing.T, machine int) procs.Status {
	t.Helper()
	args := c.command(t, "etcd members", 0)
	transfer := kit.Goversed(t, append([]string{"transfer", "--to", c.address(machine)}, args[2:]...)...)
	transfer.Exit(t, patience) // it fails if that node leads already
	st, _ := c.nodes[machine].AwaitStatus(t, longPatience, "leads", leads)
	return st
}

// stopEtcdsLeader makes the node next to etcd's leader lead Goverse, stops that process, and returns its
// machine.
func (c *embeddedCluster) stopEtcdsLeader(t *testing.T) int {
	all, leader := c.statuses(t)
	require.NotEqual(t, -1, leader)
	term, others := all[leader].RaftTerm, []int{(leader + 1) % 3, (leader + 2) % 3}
	before := c.makeLeader(t, leader)
	client := c.client(t, others[0])
	stop := startWrites(t, client)
	sent := c.nodes[leader].Signal(t, syscall.SIGTERM)
	st, _ := c.nodes[others[0]].AwaitStatus(t, longPatience, "another leads", func(st procs.Status) error {
		if st.LeaderID == "" || st.LeaderID == c.address(leader) {
			return errors.New("not yet")
		}
		return nil
	})
	led := time.Since(sent)
	require.Greater(t, st.Token, before.Token)
	require.Equal(t, 0, c.nodes[leader].Exit(t, longPatience))
	require.Contains(t, c.nodes[leader].Output(), "etcd's leadership was handed over")
	ended := time.Since(sent)
	procs.Await(t, longPatience, "its member knows the next leader of etcd", func() error {
		now, err := client.Status(requestContext(t), c.endpoint(others[0]))
		if err == nil && (now.Leader == 0 || now.RaftTerm <= term) {
			err = fmt.Errorf("leader %x in term %d", now.Leader, now.RaftTerm)
		}
		return err
	})
	procs.Await(t, longPatience, "a write succeeds", func() error {
		_, err := client.Put(requestContext(t), "/written/last", "x")
		return err
	})
	n, longest := stop()
	t.Logf("etcd's leader was stopped: another node leads after %v, the process ended after %v; %d writes at another "+
		"member, at most %v apart", led.Round(time.Millisecond), ended.Round(time.Millisecond), n,
		longest.Round(time.Millisecond))
	return leader
}
