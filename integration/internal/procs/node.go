//go:build unix

package procs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Prefix is the nodes' prefix in etcd.
const Prefix = "/it"

// NodeConfig configures a node. Etcd is required.
type NodeConfig struct {
	Etcd string
	// Listen defaults to a free address.
	Listen string
	// HTTP is the address of the status API; it defaults to a free address.
	HTTP string
	// TTL defaults to 2 s, the smallest TTL that etcd grants with its default timing.
	TTL time.Duration
	// User and Password are for etcd's access control.
	User, Password string
	// Flags holds additional flags, which follow all others.
	Flags []string
}

// Node is a goversed node.
type Node struct {
	*Process
	// Address is the advertise address, the node's name in the cluster.
	Address string

	http   string
	client *http.Client
}

// StartNode starts a node and returns at once.
func (k *Kit) StartNode(t testing.TB, cfg NodeConfig) *Node {
	t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = k.Addresses(t, 1)[0]
	}
	if cfg.TTL == 0 {
		cfg.TTL = 2 * time.Second
	}
	if cfg.HTTP == "" {
		cfg.HTTP = k.Addresses(t, 1)[0]
	}
	n := &Node{Address: cfg.Listen, http: cfg.HTTP}
	var env []string
	args := []string{"node", "--listen", cfg.Listen, "--http", n.http, "--etcd", cfg.Etcd, "--prefix", Prefix, "--ttl",
		cfg.TTL.String()}
	if cfg.User != "" {
		args = append(args, "--etcd-user", cfg.User)
		env = append(env, "GOVERSE_ETCD_PASSWORD="+cfg.Password)
	}
	n.Process = k.goversedProcess(t, "node "+cfg.Listen, append(args, cfg.Flags...), env)
	n.client = newClient(t)
	return n
}

// newClient returns a client that leaves no connection open when the test ends.
func newClient(t testing.TB) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// NodeAt returns a Node for a node in a process that the test itself started, with the status API at http.
func (k *Kit) NodeAt(t testing.TB, p *Process, address, http string) *Node {
	t.Helper()
	return &Node{Process: p, Address: address, http: http, client: newClient(t)}
}

// Goversed starts goversed with the given arguments.
func (k *Kit) Goversed(t testing.TB, args ...string) *Process {
	t.Helper()
	return k.goversedProcess(t, "goversed "+args[0], args, nil)
}

func (k *Kit) goversedProcess(t testing.TB, name string, args, env []string) *Process {
	t.Helper()
	return k.Start(t, name, k.GoversedPath(t), args, env)
}

// GoversedPath returns the path of goversed, for tests that start it in another way.
func (k *Kit) GoversedPath(t testing.TB) string {
	t.Helper()
	path, err := k.goversed()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Status is the response to /cluster/status.
type Status struct {
	NodeID       string   `json:"node_id"`
	State        string   `json:"state"`
	IsLeader     bool     `json:"is_leader"`
	LeaderID     string   `json:"leader_id"`
	Term         int64    `json:"term"`
	Token        int64    `json:"token"`
	Mode         string   `json:"mode"`
	ClusterSize  int      `json:"cluster_size"`
	Ready        bool     `json:"ready"`
	ClusterReady bool     `json:"cluster_ready"`
	Queue        []string `json:"queue"`
	Nodes        []string `json:"nodes"`
	Revision     int64    `json:"revision"`
}

// Leader is the part of the response to /cluster/leader that tests use.
type Leader struct {
	LeaderID  string    `json:"leader_id"`
	Token     int64     `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
	Estimated bool      `json:"estimated"`
}

// ErrAnswer is returned for a response other than 200.
var ErrAnswer = errors.New("the node answered")

// Status requests the node's view of its cluster.
func (n *Node) Status(ctx context.Context) (Status, error) {
	var st Status
	err := n.getJSON(ctx, "/cluster/status", &st)
	return st, err
}

// Leader requests the leader from the node. If there is none, the error matches ErrAnswer.
func (n *Node) Leader(ctx context.Context) (Leader, error) {
	var l Leader
	err := n.getJSON(ctx, "/cluster/leader", &l)
	return l, err
}

// Origin returns the origin of the status API and the dashboard, for example "http://127.0.0.1:48001".
func (n *Node) Origin() string { return "http://" + n.http }

// Ready requests the node's readiness. If the node is not ready, the error matches ErrAnswer.
func (n *Node) Ready(ctx context.Context) error {
	return n.getJSON(ctx, "/readyz", &struct{}{})
}

// Metric returns one of the node's metrics, named with its labels.
func (n *Node) Metric(ctx context.Context, name string) (float64, error) {
	text, err := n.getBody(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%w: there is no metric %s", ErrAnswer, name)
}

func (n *Node) getJSON(ctx context.Context, path string, into any) error {
	text, err := n.getBody(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (n *Node) getBody(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.http+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() // nothing was written
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w %s: %s", ErrAnswer, path, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// AwaitStatus waits until check accepts the node's status. It returns that status and the time that took.
func (n *Node) AwaitStatus(t testing.TB, within time.Duration, what string,
	check func(Status) error) (Status, time.Duration) {
	t.Helper()
	var st Status
	took := Await(t, within, n.Address+": "+what, func() error {
		if !n.Running() {
			t.Fatalf("%s ended (%s): %s", n.name, n.State(), what)
		}
		// The request is bounded because the node may be frozen.
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		var err error
		if st, err = n.Status(ctx); err != nil {
			return err
		}
		if err := check(st); err != nil {
			return fmt.Errorf("%w; its status is %+v", err, st)
		}
		return nil
	})
	return st, took
}
