package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/needed"
)

// networkEnv marks the process that runs TestPostgresPackets in a network of its own.
const networkEnv = "GOVERSE_INTEGRATION_NETWORK"

// packetFault returns a fault that lets the kernel drop packets of the leader's address.
func packetFault(name string, bound func(deadline time.Duration) time.Duration, rules ...[]string) aloneFault {
	change := func(how string) func(f *workerWorld, w *relayed) {
		return func(f *workerWorld, w *relayed) {
			for _, rule := range rules {
				args := []string{"--wait", how, "INPUT", "--protocol", "tcp", rule[0], w.from, "--jump", "DROP"}
				out, err := exec.Command("iptables", args...).CombinedOutput()
				require.NoError(f, err, "%s", out)
			}
		}
	}
	return aloneFault{name, change("--append"), bound, change("--delete"), false}
}

var (
	toServer   = []string{"--source"}
	fromServer = []string{"--destination"}

	packetFaults = []aloneFault{
		packetFault("packets both ways", afterTwo, toServer, fromServer),
		packetFault("packets to the server", afterTwo, toServer),
		packetFault("packets from the server", afterTwoAndABeat, fromServer),
	}
)

// startAddressed starts a worker that connects from an address of its own.
func (f *workerWorld) startAddressed() *relayed {
	f.addressed++
	cfg := f.cfg
	cfg.From = fmt.Sprintf("127.0.1.%d", f.addressed)
	return &relayed{Process: startWorker(f.T, cfg), from: cfg.From}
}

// The kernel drops packets between the leader and PostgreSQL without a sign to either, in one direction or in both. The
// other worker goes on from the checkpoint within the stated time.
func TestPostgresPackets(t *testing.T) {
	if os.Getenv(networkEnv) != "" {
		out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput()
		require.NoError(t, err, "%s", out)
		takeOverEach(t, packetFaults, (*workerWorld).startAddressed)
		return
	}
	t.Parallel()
	runInNetwork(t)
}

// runInNetwork runs the test in a process with a network of its own, so that no rule concerns another program.
func runInNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes networks in which packets are dropped")
	}
	for _, program := range []string{"iptables", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			needed.Missing(t, "iptables", "the programs iptables and ip are missing: apt-get install iptables iproute2")
		}
	}
	self, err := os.Executable()
	require.NoError(t, err)
	inside := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		return cmd
	}
	if out, err := inside("iptables", "--list").CombinedOutput(); err != nil {
		t.Skipf("the kernel drops no packets here: %v: %s", err, out)
	}
	run := "^TestPostgresPackets$"
	if _, part, ok := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); ok {
		run += "/" + part
	}
	cmd := inside(self, "-test.run", run, "-test.v", "-test.timeout", "0", "-postgres.rounds", fmt.Sprint(*pgRounds))
	cmd.Env = append(os.Environ(), networkEnv+"=1")
	p, err := fault.StartProcess(cmd)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	code, err := p.Exit(t.Context())
	t.Log(p.Output())
	require.NoError(t, err)
	require.Zero(t, code)
}
