package integration

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/hosts"
)

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
	if hosts.Inside() {
		hosts.New(t) // for its loopback alone
		takeOverEach(t, packetFaults, (*workerWorld).startAddressed)
		return
	}
	t.Parallel()
	if why := hosts.Missing(t); why != "" {
		t.Skip(why)
	}
	hosts.Run(t)
}
