//go:build unix

package procs

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/test/needed"
)

// Flavour selects the etcd that a test runs against.
type Flavour string

// The flavours.
const (
	// Etcd37 is the etcd that the module requires, in a copy of the test binary.
	Etcd37 Flavour = "etcd37"
	// Etcd34 is the etcd-server package of Debian and its relatives.
	Etcd34 Flavour = "etcd34"
	// EtcdBinary is the program that -etcd.binary names, of any version.
	EtcdBinary Flavour = "binary"
)

// etcdBinary is the program of EtcdBinary.
var etcdBinary = flag.String("etcd.binary", "",
	"path of an etcd server: scenarios run against it alone, in place of etcd 3.7 and Debian's etcd")

// Flavours returns all flavours, or EtcdBinary alone if -etcd.binary names a program.
func Flavours() []Flavour {
	if *etcdBinary != "" {
		return []Flavour{EtcdBinary}
	}
	return []Flavour{Etcd37, Etcd34}
}

// serverPath returns the program of a flavour other than Etcd37.
func serverPath(flavour Flavour) string {
	if flavour == EtcdBinary {
		return *etcdBinary
	}
	return etcdPath
}

// EtcdBinaryVersion returns the version of EtcdBinary, such as "3.6.16". The test is skipped unless -etcd.binary names
// a program.
func EtcdBinaryVersion(t testing.TB) string {
	t.Helper()
	if *etcdBinary == "" {
		t.Skip("this needs another version of etcd: give -etcd.binary")
	}
	out, err := exec.Command(*etcdBinary, "--version").Output()
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(out), "\n")
	version, found := strings.CutPrefix(first, "etcd Version: ")
	require.True(t, found, "%s is no etcd: it says %q", *etcdBinary, first)
	return version
}

// The packages etcd-server and etcd-client install their programs here.
const (
	etcdPath    = "/usr/bin/etcd"
	etcdctlPath = "/usr/bin/etcdctl"
)

const etcdStart = 20 * time.Second

// Etcd is one etcd server, the only member of its cluster. It keeps its data when it is killed.
type Etcd struct {
	// Endpoint is the host:port for clients. It stays the same after a restart.
	Endpoint string
	// Process is the current process.
	*Process

	kit       *Kit
	flavour   Flavour
	passwords Passwords
	dir, peer string
	tls       *Certificates // nil without TLS
}

// Passwords configures a server's password checks. The zero value makes them as cheap as possible.
type Passwords struct {
	BcryptCost int // 0 means the minimum
	TokenTTL   int // seconds that an unused token lasts; 0 means etcd's default, 300
}

// StartEtcd starts a server with etcd's default timing and returns once it answers. If the flavour is not
// installed the test is skipped, or fails if GOVERSE_REQUIRE names the flavour.
func (k *Kit) StartEtcd(t testing.TB, flavour Flavour) *Etcd {
	t.Helper()
	return k.StartEtcdWith(t, flavour, Passwords{})
}

// StartEtcdWith is like StartEtcd, with the given password checks.
func (k *Kit) StartEtcdWith(t testing.TB, flavour Flavour, passwords Passwords) *Etcd {
	t.Helper()
	if flavour == Etcd34 {
		requireEtcd34(t, etcdPath, "etcd Version: 3.4.", "etcd-server", "--version")
	}
	addresses := k.Addresses(t, 2)
	e := &Etcd{Endpoint: addresses[0], peer: addresses[1], kit: k, flavour: flavour, passwords: passwords,
		dir: t.TempDir()}
	e.Restart(t)
	return e
}

// StartSecureEtcd starts etcd 3.7 with TLS for clients. It accepts only clients with a certificate of this
// authority. It reads the files again when it is restarted, and its own certificate at each handshake.
func (k *Kit) StartSecureEtcd(t testing.TB, c Certificates) *Etcd {
	t.Helper()
	addresses := k.Addresses(t, 2)
	e := &Etcd{Endpoint: addresses[0], peer: addresses[1], kit: k, flavour: Etcd37, dir: t.TempDir(), tls: &c}
	e.Restart(t)
	return e
}

// requireEtcd34 skips or fails the test unless the program is installed and belongs to etcd 3.4.
func requireEtcd34(t testing.TB, path, want, pkg string, args ...string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append(environment(), "ETCDCTL_API=3")
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), want) {
		return
	}
	needed.Missing(t, string(Etcd34),
		fmt.Sprintf("this needs etcd 3.4's %s: apt-get install %s (said %q, %v)", path, pkg, out, err))
}

// Restart starts the server, again with its data and its port after Kill. It returns the time from which the
// server answers.
func (e *Etcd) Restart(t testing.TB) time.Time {
	t.Helper()
	switch e.flavour {
	case Etcd37:
		self, err := os.Executable()
		require.NoError(t, err)
		config, err := json.Marshal(serveConfig{DataDir: e.dir, Client: e.Endpoint, Peer: e.peer, Passwords: e.passwords,
			TLS: e.tls})
		require.NoError(t, err)
		e.Process = e.kit.Start(t, "etcd 3.7", self, nil, []string{serveEnv + "=" + string(config)})
	case Etcd34, EtcdBinary:
		e.Process = e.kit.Start(t, string(e.flavour), serverPath(e.flavour), []string{"--name=it", "--data-dir=" + e.dir,
			"--listen-client-urls=http://" + e.Endpoint, "--advertise-client-urls=http://" + e.Endpoint,
			"--listen-peer-urls=http://" + e.peer, "--initial-advertise-peer-urls=http://" + e.peer,
			"--initial-cluster=it=http://" + e.peer, "--initial-cluster-token=" + e.peer,
			fmt.Sprintf("--bcrypt-cost=%d", cmp.Or(e.passwords.BcryptCost, leastBcryptCost)),
			fmt.Sprintf("--auth-token-ttl=%d", cmp.Or(e.passwords.TokenTTL, 300))}, nil)
	}
	if e.tls != nil {
		awaitHealthAt(t, "etcd", e.Process, "https://"+e.Endpoint, e.tls.Config(t))
		return time.Now()
	}
	awaitHealth(t, "etcd", e.Process, e.Endpoint)
	return time.Now()
}

// Upgrade starts the server again with its data, as another flavour. It must have ended.
func (e *Etcd) Upgrade(t testing.TB, flavour Flavour) {
	t.Helper()
	e.flavour = flavour
	e.Restart(t)
}

// awaitHealth waits until the server reports at its client address that it is healthy.
func awaitHealth(t testing.TB, who string, p *Process, endpoint string) {
	t.Helper()
	awaitHealthAt(t, who, p, "http://"+endpoint, nil)
}

func awaitHealthAt(t testing.TB, who string, p *Process, url string, config *tls.Config) {
	t.Helper()
	// An etcd client would notice the return late, because of its backoff.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config},
		Timeout: time.Second}
	Await(t, etcdStart, who+" answers", func() error {
		if !p.Running() {
			t.Fatalf("%s ended: %s", who, p.State())
		}
		resp, err := client.Get(url + "/health")
		if err != nil {
			return err
		}
		defer resp.Body.Close() // nothing was written
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

// Client returns an ordinary etcd client over TCP, which is closed with the test. User and password may be
// empty.
func (e *Etcd) Client(t testing.TB, user, password string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint}, DialTimeout: 5 * time.Second,
		Username: user, Password: password})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Keys returns the keys below a prefix with their values, without those of the event log, which belong to no
// node.
func Keys(t testing.TB, client *clientv3.Client, prefix string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	resp, err := client.Get(ctx, prefix, clientv3.WithPrefix())
	require.NoError(t, err)
	out := map[string]string{}
	for _, kv := range resp.Kvs {
		if key := string(kv.Key); !strings.HasPrefix(key, Prefix+"/events/") {
			out[key] = string(kv.Value)
		}
	}
	return out
}

// StartEtcdctl starts the etcdctl of etcd 3.4 against a server of either flavour. If it is not installed, the
// test is skipped or fails as with StartEtcd.
func (k *Kit) StartEtcdctl(t testing.TB, e *Etcd, args ...string) *Process {
	t.Helper()
	requireEtcd34(t, etcdctlPath, "etcdctl version: 3.4.", "etcd-client", "version")
	return k.Start(t, "etcdctl "+args[0], etcdctlPath, append([]string{"--endpoints=" + e.Endpoint}, args...),
		[]string{"ETCDCTL_API=3"})
}
