//go:build unix

package integration

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// closeNoticeTime is the time in which an open connection may not notice that its other end was killed. Data sent on
// it meanwhile is lost without notice.
const closeNoticeTime = time.Second

var (
	leaderonlyKills = flag.Int("leaderonly.kills", 1,
		"how often the leader is killed in each of TestLeaderOnly; 10 in the full run")
	leaderonlyTransfers = flag.Int("leaderonly.transfers", 2,
		"how often the leadership is transferred in each of TestLeaderOnly; 10 in the full run")
	leaderonlyStops = flag.Int("leaderonly.stops", 1,
		"how often the leader is stopped in order in each of TestLeaderOnly; 10 in the full run")
)

const controllerPrefix = "/it-controller"

// controllers are three processes of examples/controller.
type controllers struct {
	*testing.T
	etcd      string
	client    *clientv3.Client
	elsewhere string
	nodes     [3]string // their addresses
	http      [3]string
	processes [3]*procs.Process
	observer  *leaderelection.LeaderElection
	history   *writeHistory
}

func startControllers(t *testing.T, elsewhere string) *controllers {
	t.Helper()
	etcd := kit.StartEtcd(t, procs.Etcd37)
	c := &controllers{T: t, etcd: etcd.Endpoint, client: etcdtest.Dial(t, etcd.Endpoint), elsewhere: elsewhere}
	c.history = recordWrites(t, c.client, controllerPrefix+"/leader/", controllerPrefix+"-data/")
	addresses := kit.Addresses(t, 6)
	copy(c.nodes[:], addresses[:3])
	copy(c.http[:], addresses[3:])
	for i := range c.processes {
		c.start(i)
	}
	for i := range c.processes {
		c.ready(i)
	}
	c.observer = observe(t, c.client)
	return c
}

// observe returns an observer of the controllers' election.
func observe(t *testing.T, client *clientv3.Client) *leaderelection.LeaderElection {
	t.Helper()
	observer, runner, err := leaderelection.New(leaderelection.Config{Client: client, EtcdPrefix: controllerPrefix,
		Observer: true})
	require.NoError(t, err)
	require.NoError(t, runner.Start(etcdtest.Context(t)))
	t.Cleanup(func() { require.NoError(t, runner.Stop(context.Background())) })
	return observer
}

func (c *controllers) start(i int) {
	c.Helper()
	c.processes[i] = kit.Start(c.T, "controller "+c.nodes[i], kit.ControllerPath(c.T), []string{"-etcd", c.etcd,
		"-prefix", controllerPrefix, "-listen", c.nodes[i], "-http", c.http[i], "-elsewhere", c.elsewhere}, nil)
}

// ready waits until a controller accepts writes.
func (c *controllers) ready(i int) {
	c.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	procs.Await(c.T, 30*time.Second, "ready for writes: "+c.http[i], func() error {
		resp, err := client.Get("http://" + c.http[i] + "/readyz/writes")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
}

// leader returns the index of the leading controller.
func (c *controllers) leader() int {
	c.Helper()
	for {
		l, err := c.observer.WaitForLeader(etcdtest.Context(c.T))
		require.NoError(c.T, err)
		for i, node := range c.nodes {
			if node == l.Address {
				return i
			}
		}
		require.FailNow(c.T, "not one of them leads", l.Address)
	}
}

func (c *controllers) transfer(to int) {
	c.Helper()
	require.NoError(c.T, c.observer.Transfer(etcdtest.Context(c.T), c.nodes[to]))
}

// urls returns the URLs of the controllers.
func (c *controllers) urls() []string {
	return []string{"http://" + c.http[0], "http://" + c.http[1], "http://" + c.http[2]}
}

// ending is the period from the signal to a process until the process is gone.
type ending struct{ from, to time.Time }

// exercise transfers leadership and stops and kills leaders while writes come in, and judges the writes.
func (c *controllers) exercise(what string, w *writers) {
	c.Helper()
	w.wrote(100)
	for range *leaderonlyTransfers {
		c.transfer((c.leader() + 1 + time.Now().Nanosecond()/1000%2) % 3)
		w.wrote(60)
	}
	require.Empty(c.T, w.failed(), "a transfer fails no write")
	var ends []ending
	for range *leaderonlyStops {
		at := c.leader()
		e := ending{from: c.processes[at].Signal(c.T, syscall.SIGTERM)}
		require.Zero(c.T, c.processes[at].Exit(c.T, 30*time.Second))
		e.to = time.Now()
		ends = append(ends, e)
		w.wrote(40)
		c.start(at)
		c.ready(at)
		w.wrote(20)
	}
	stops := len(w.failed())
	for range *leaderonlyKills {
		at := c.leader()
		e := ending{from: time.Now()}
		c.processes[at].Kill(c.T)
		e.to = time.Now().Add(closeNoticeTime)
		ends = append(ends, e)
		w.wrote(100) // carried out by the next leader
		require.NotEqual(c.T, at, c.leader())
		c.start(at)
		c.ready(at)
		w.wrote(20)
	}
	w.finish()
	w.report(fmt.Sprintf("%s, %d transfers, %d stops (%d writes failed), %d kills", what, *leaderonlyTransfers,
		*leaderonlyStops, stops, *leaderonlyKills))
	for _, f := range w.failed() {
		ended := slices.ContainsFunc(ends, func(e ending) bool { return f.from.Before(e.to) && f.to.After(e.from) })
		require.True(c.T, f.unknown && ended, "only a write under way when a process ends fails: %+v", f)
	}
	require.NoError(c.T, judgeWrites(c.history.eventsToNow(c.T, c.client), c.history.queue, c.history.data,
		w.acknowledged))
}

// The controllers run behind nginx with deploy's configuration.
func TestLeaderOnlyBehindNginx(t *testing.T) {
	t.Parallel()
	c := startControllers(t, "refuse")
	own := kit.Addresses(t, 4)
	replace := map[string]string{"listen 8080;": "listen " + own[3] + ";"}
	for i, door := range []string{"48901", "48902", "48903"} {
		replace[fmt.Sprintf("10.0.0.%d:48001", i+1)] = c.http[i]
		replace[door] = portOf(t, own[i])
	}
	kit.Nginx(t, "../deploy/nginx/goverse.conf", replace)
	c.exerciseThrough("nginx", own[3])
}

// exerciseThrough exercises the controllers through a load balancer at address.
func (c *controllers) exerciseThrough(what, address string) {
	c.Helper()
	procs.Await(c.T, patience, what+" listens", func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	c.exercise(what, startWriters(c.T, "http://"+address))
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return port
}

// Clients know the nodes and follow 307 to the leader.
func TestLeaderOnlyRedirects(t *testing.T) {
	t.Parallel()
	c := startControllers(t, "redirect")
	c.exercise("307", startWriters(t, c.urls()...))
}

// Clients know the nodes, which forward to the leader.
func TestLeaderOnlyForwards(t *testing.T) {
	t.Parallel()
	c := startControllers(t, "forward")
	c.exercise("forward", startWriters(t, c.urls()...))
}

// The controllers run behind HAProxy with deploy's configuration.
func TestLeaderOnlyBehindHAProxy(t *testing.T) {
	t.Parallel()
	c := startControllers(t, "refuse")
	address := kit.Addresses(t, 1)[0]
	replace := map[string]string{"bind :8080": "bind " + address}
	for i := range c.http {
		replace[fmt.Sprintf("10.0.0.%d:48001", i+1)] = c.http[i]
	}
	kit.Haproxy(t, "../deploy/haproxy/goverse.cfg", replace)
	c.exerciseThrough("HAProxy", address)
}
