//go:build unix

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// rotationTTL is long enough for a rotation's steps while etcd is unreachable, even on a busy machine.
const rotationTTL = 20 * time.Second

// rotation holds the files with which programs connect to an etcd, and the server's own.
type rotation struct {
	server, client certtest.Files
	password       string // the file with the password
}

// renew replaces all files of the given sides.
func renew(t *testing.T, authority *certtest.Authority, sides ...certtest.Files) {
	t.Helper()
	for _, f := range sides {
		f.Write(t, authority.Issue(t, []string{"127.0.0.1"}))
		f.WriteCA(t, authority)
	}
}

// admin returns a client that uses the present files.
func (r rotation) admin(t *testing.T, etcd *procs.Etcd, password string) *clientv3.Client {
	t.Helper()
	config := procs.Certificates{CA: r.client.CA, Cert: r.client.Cert, Key: r.client.Key}.Config(t)
	cfg := clientv3.Config{Endpoints: []string{"https://" + etcd.Endpoint}, TLS: config, DialTimeout: 5 * time.Second,
		Logger: zap.NewNop()}
	if password != "" {
		cfg.Username, cfg.Password = "root", password
	}
	client, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Certificates, authorities and passwords are replaced three times, and etcd is restarted each time. No session
// is lost: not those of goversed node, exec and lock, nor that of a program with the library.
func TestFilesAreReplaced(t *testing.T) {
	t.Parallel()
	r := rotation{server: certtest.NewFiles(t), client: certtest.NewFiles(t),
		password: filepath.Join(t.TempDir(), "password")}
	renew(t, certtest.NewAuthority(t), r.server, r.client)
	etcd := kit.StartSecureEtcd(t, procs.Certificates{CA: r.server.CA, Cert: r.server.Cert, Key: r.server.Key})
	open := r.admin(t, etcd, "")
	_, err := open.UserAdd(requestContext(t), "root", "secret 0")
	require.NoError(t, err)
	_, err = open.UserGrantRole(requestContext(t), "root", "root")
	require.NoError(t, err)
	_, err = open.AuthEnable(requestContext(t))
	require.NoError(t, err)
	certtest.ReplaceFile(t, r.password, []byte("secret 0\n"))

	flags := []string{"--etcd-cacert", r.client.CA, "--etcd-cert", r.client.Cert, "--etcd-key", r.client.Key,
		"--etcd-user", "root", "--etcd-password-file", r.password}
	n := kit.StartNode(t, procs.NodeConfig{Etcd: etcd.Endpoint, TTL: rotationTTL, Flags: flags})
	n.AwaitStatus(t, patience, "leads", leads)
	began := filepath.Join(t.TempDir(), "began")
	run := func(verb ...string) *procs.Process {
		args := append(append(verb, "--etcd", etcd.Endpoint, "--prefix", procs.Prefix, "--ttl", rotationTTL.String(),
			"--log-level", "info"), flags...)
		return kit.Goversed(t, append(args, "--", "sh", "-c", `trap "" HUP; echo begun >> "$0"; sleep 600`, began)...)
	}
	supervised := []*procs.Process{run("exec", "--election", "rotate"), run("lock", "rotate")}
	begun := func() int { text, _ := os.ReadFile(began); return strings.Count(string(text), "begun") }
	procs.Await(t, patience, "both commands run", func() error {
		if begun() != len(supervised) {
			return fmt.Errorf("%d of them", begun())
		}
		return nil
	})
	c := library(t, etcd, r)

	for i := 1; i <= 3; i++ {
		admin := r.admin(t, etcd, fmt.Sprint("secret ", i-1))
		_, err := admin.UserChangePassword(requestContext(t), "root", fmt.Sprint("secret ", i))
		require.NoError(t, err)
		certtest.ReplaceFile(t, r.password, fmt.Appendf(nil, "secret %d\n", i))
		authority := certtest.NewAuthority(t) // no program trusts it yet
		renew(t, authority, r.server)
		if i == 2 {
			renew(t, authority, r.client)
		}
		if i == 2 { // the files are checked now, and no process ends
			for _, p := range append([]*procs.Process{n.Process}, supervised...) {
				p.Signal(t, syscall.SIGHUP)
			}
		}
		etcd.Kill(t)
		etcd.Restart(t)
		if i == 1 || i == 3 { // the other side is late: a waiting process reports the reason and continues
			for _, p := range append([]*procs.Process{n.Process}, supervised...) {
				p.AwaitOutput(t, patience, "no connection to etcd because of a certificate, retrying")
				p.AwaitOutput(t, patience, "a certificate is refused: check --etcd-cacert, --etcd-cert and --etcd-key")
			}
			renew(t, authority, r.client)
		}
		began, before, renewed := time.Now(), c.written(), renewals(t, n)
		procs.Await(t, patience, "etcd answers the program", func() error {
			if c.written() == before {
				return fmt.Errorf("no write beyond %d", before)
			}
			return nil
		})
		t.Logf("rotation %d: written again %v after etcd's return", i, time.Since(began).Round(time.Millisecond))
		procs.Await(t, patience, "the node renews its session", func() error {
			if renewals(t, n) == renewed {
				return fmt.Errorf("no renewal beyond %v", renewed)
			}
			return nil
		})
	}
	lost, err := n.Metric(requestContext(t), "goverse_sessions_lost_total")
	require.NoError(t, err)
	require.Zero(t, lost, n.Output())
	require.Zero(t, c.Status().SessionsLost)
	c.end()
	require.Equal(t, len(supervised), begun(), "no command was started anew")
	n.AwaitOutput(t, patience, "certificates replaced: new connections use them")
	n.AwaitOutput(t, patience, "password replaced: the next log-in at etcd uses it")
	expires, err := n.Metric(requestContext(t), fmt.Sprintf("goverse_certificate_expiry_timestamp_seconds{file=%q,use=%q}",
		r.client.Cert, "etcd-client"))
	require.NoError(t, err)
	require.InDelta(t, time.Now().Add(time.Hour).Unix(), expires, 300)
	for _, p := range supervised {
		require.True(t, p.Running(), p.Output())
		p.AwaitOutput(t, patience, "certificates replaced")
		p.Signal(t, syscall.SIGTERM)
		p.Exit(t, patience)
	}
}

// renewals returns the number of effective renewals of a node's session.
func renewals(t *testing.T, n *procs.Node) float64 {
	t.Helper()
	all, err := n.Metric(requestContext(t), "goverse_session_renewal_duration_seconds_count")
	require.NoError(t, err)
	return all
}

// program is a program with the library that also writes continuously through a client of its own.
type program struct {
	*cluster.Cluster
	written func() int // number of acknowledged writes
	end     func()
}

func library(t *testing.T, etcd *procs.Etcd, r rotation) program {
	t.Helper()
	certs, err := mtls.New(mtls.Config{CertFile: r.client.Cert, KeyFile: r.client.Key, CAFile: r.client.CA, ForEtcd: true})
	require.NoError(t, err)
	n, err := node.NewNode(node.Config{ListenAddress: "127.0.0.1:0"})
	require.NoError(t, err)
	cfg := cluster.Config{EtcdAddress: "https://" + etcd.Endpoint, EtcdPrefix: procs.Prefix,
		LeaderElectionTTL: int(rotationTTL / time.Second),
		CurrentTLS:        certs.EtcdTLS, Credentials: func() (string, string, error) {
			text, err := os.ReadFile(r.password)
			return "root", strings.TrimSpace(string(text)), err
		}}
	c, err := cluster.NewClusterWithNode(cfg, n)
	require.NoError(t, err)
	require.NoError(t, c.Start(requestContext(t)))
	client, err := cluster.NewEtcdClient(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var written atomic.Int64
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				writing, cancel := context.WithTimeout(ctx, time.Second)
				if _, err := client.Put(writing, fmt.Sprint("load", i), "x"); err == nil {
					written.Add(1)
				}
				cancel()
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	quiet := sync.OnceFunc(func() { stop(); load.Wait(); _ = client.Close() })
	t.Cleanup(quiet)
	return program{c, func() int { return int(written.Load()) }, func() {
		quiet()
		require.NoError(t, c.Stop(requestContext(t)))
		certs.Close()
	}}
}
