//go:build unix

package procs

import (
	"encoding/json"
	"os"
	"testing"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// proxyEnv names the environment variable that makes a copy of the test binary an `etcd grpc-proxy`. It holds
// the arguments.
const proxyEnv = "GOVERSE_INTEGRATION_GRPC_PROXY"

// Proxy is a running `etcd grpc-proxy`.
type Proxy struct {
	// Endpoint is the host:port at which clients connect.
	Endpoint string
	*Process
}

// StartProxy starts the grpc-proxy of that flavour in front of an etcd and returns once it forwards requests.
// If the flavour is not installed the test is skipped, or fails if GOVERSE_REQUIRE names the flavour.
func (k *Kit) StartProxy(t testing.TB, flavour Flavour, e *Etcd) *Proxy {
	t.Helper()
	p := &Proxy{Endpoint: k.Addresses(t, 1)[0]}
	args := []string{"grpc-proxy", "start", "--listen-addr=" + p.Endpoint, "--advertise-client-url=" + p.Endpoint,
		"--endpoints=" + e.Endpoint, "--data-dir=" + t.TempDir()}
	switch flavour {
	case Etcd37:
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		p.Process = k.Start(t, "grpc-proxy 3.7", self, nil, []string{proxyEnv + "=" + string(encoded)})
	case Etcd34:
		requireEtcd34(t, etcdPath, "etcd Version: 3.4.", "etcd-server", "--version")
		p.Process = k.Start(t, "grpc-proxy 3.4", etcdPath, args, nil)
	}
	awaitHealth(t, "the proxy", p.Process, p.Endpoint)
	return p
}

// runProxy runs a grpc-proxy until the process is killed.
func runProxy(encoded string) int {
	var args []string
	if err := json.Unmarshal([]byte(encoded), &args); err != nil {
		return reportError(err)
	}
	os.Args = append([]string{"etcd"}, args...) // etcdmain reads it too
	etcdmain.Main(os.Args)
	return 0
}
