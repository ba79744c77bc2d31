package hosts

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/needed"
)

// insideEnv marks a process in a network of its own.
const insideEnv = "GOVERSE_INTEGRATION_HOSTS"

// centre is the address of a Network, outside of all hosts.
const centre = "10.77.0.1"

// maxHosts is the number of hosts that the addresses suffice for.
const maxHosts = 250

// Inside reports whether this process has a network of its own.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// Missing returns the reason why this process cannot make networks, or "".
func Missing(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return "only root makes networks in which packets are dropped"
	}
	for _, program := range []string{"iptables", "ip", "nsenter", "ss"} {
		if _, err := exec.LookPath(program); err != nil {
			if needed.Required("iptables") {
				t.Fatalf("%s names iptables: %v", needed.Env, err)
			}
			return "the program " + program + " is missing: apt-get install iptables iproute2 util-linux"
		}
	}
	cmd := exec.CommandContext(t.Context(), "iptables", "--list")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("the kernel drops no packets here: %v: %s", err, out)
	}
	return ""
}

// Run runs the test t, and of its subtests those that -test.run selects, in a process with a network of its own.
// Every other flag of the command line applies there, too. Run waits for the end of the process and fails if the test
// failed there.
func Run(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	run := "^" + t.Name() + "$"
	if _, part, ok := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); ok {
		run += "/" + part
	}
	args := []string{"-test.run", run, "-test.v", "-test.timeout", "0"}
	flag.Visit(func(f *flag.Flag) {
		if name := f.Name; !strings.HasPrefix(name, "test.") || name == "test.parallel" {
			args = append(args, "-"+name+"="+f.Value.String())
		}
	})
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	p, err := fault.StartProcess(cmd)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	code, err := p.Exit(t.Context())
	t.Log(p.Output())
	require.NoError(t, err)
	require.Zero(t, code)
}

// Network is the network of this process, which connects hosts. Its methods are safe for concurrent use.
type Network struct {
	// Address is reached from all hosts and belongs to none.
	Address string

	mu    sync.Mutex
	hosts int
}

// New sets up the network of this process, which must be its own. Call it once in a process.
func New(t testing.TB) *Network {
	t.Helper()
	require.True(t, Inside(), "this process shares its network with others")
	configure(t, "", "link set lo up", "addr add "+centre+"/32 dev lo")
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600))
	return &Network{Address: centre}
}

// Host is a host. It ends with the test.
type Host struct {
	// Address is the host's only address, besides those of its loopback.
	Address string

	t         testing.TB
	namespace string // path of its network
	port      string // the other end of its cable

	mu    sync.Mutex
	cut   []cutRule
	noARP bool
}

// NewHost starts a host.
func (n *Network) NewHost(t testing.TB) *Host {
	t.Helper()
	n.mu.Lock()
	n.hosts++
	number := n.hosts
	n.mu.Unlock()
	require.LessOrEqual(t, number, maxHosts, "no addresses are left")
	cmd := exec.Command("sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	keeper, err := fault.StartProcess(cmd) // the network exists for as long as this process
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, keeper.Close()) })
	h := &Host{Address: fmt.Sprintf("10.77.%d.2", number), t: t, port: fmt.Sprint("host", number),
		namespace: fmt.Sprintf("/proc/%d/ns/net", keeper.Pid())}
	outer := fmt.Sprintf("10.77.%d.1", number)
	configure(t, "", fmt.Sprintf("link add %s type veth peer name eth0 netns %d", h.port, keeper.Pid()),
		"addr add "+outer+"/30 dev "+h.port, "link set "+h.port+" up")
	configure(t, h.namespace, "link set lo up", "addr add "+h.Address+"/30 dev eth0", "link set eth0 up",
		"route add default via "+outer)
	return h
}

// Command returns the program and the arguments that run a program on the host, in the process that starts them.
func (h *Host) Command(path string, args []string) (string, []string) {
	return "nsenter", append([]string{"--net=" + h.namespace, path}, args...)
}

// Direction is a direction of packets.
type Direction string

// The directions.
const (
	ToHost   Direction = "to the host"
	FromHost Direction = "from the host"
	BothWays Direction = "both ways"
)

// cutRule is a list of rules in one network.
type cutRule struct {
	namespace string // "" for that of this process
	rules     []string
}

// Cut drops all packets of a direction, until Heal. It returns when they are dropped.
func (h *Host) Cut(d Direction) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if d != FromHost {
		h.cut = append(h.cut, cutRule{h.namespace, []string{"INPUT --in-interface eth0 --jump DROP"}})
	}
	if d != ToHost {
		from := " --in-interface " + h.port + " --jump DROP"
		h.cut = append(h.cut, cutRule{"", []string{"INPUT" + from, "FORWARD" + from}})
	}
	for _, c := range h.cut {
		c.apply(h.t, "--append ")
	}
}

// Heal ends all cuts.
func (h *Host) Heal() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.cut {
		c.apply(h.t, "--delete ")
	}
	h.cut = nil
	if h.noARP {
		configure(h.t, h.namespace, "link set eth0 arp on")
		h.noARP = false
	}
}

// ResetConnections resets all TCP connections of the host with these ports at either end.
func (h *Host) ResetConnections(ports ...string) {
	h.t.Helper()
	for _, port := range ports {
		runInput(h.t, h.namespace, nil, "ss", "--tcp", "--kill", "--no-header", "sport", "=", ":"+port, "or",
			"dport", "=", ":"+port)
	}
}

// CutPower makes the host appear to be without power, until Heal.
func (h *Host) CutPower() {
	h.t.Helper()
	h.Cut(BothWays)
	h.mu.Lock()
	defer h.mu.Unlock()
	configure(h.t, h.namespace, "link set eth0 arp off")
	configure(h.t, "", "neigh flush dev "+h.port)
	h.noARP = true
}

// apply adds or deletes all rules at once.
func (c cutRule) apply(t testing.TB, how string) {
	t.Helper()
	lines := []string{"*filter"}
	for _, r := range c.rules {
		lines = append(lines, how+r)
	}
	runInput(t, c.namespace, append(lines, "COMMIT"), "iptables-restore", "--wait", "--noflush")
}

// configure runs commands of ip in a network.
func configure(t testing.TB, namespace string, commands ...string) {
	t.Helper()
	runInput(t, namespace, commands, "ip", "-batch", "-")
}

// runInput runs a program in a network, with lines as its input. It must succeed.
func runInput(t testing.TB, namespace string, lines []string, program string, args ...string) {
	t.Helper()
	if namespace != "" {
		program, args = "nsenter", append([]string{"--net=" + namespace, program}, args...)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %q: %s", program, lines, out)
}
