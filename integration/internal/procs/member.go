//go:build unix

package procs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// heartbeats is how many heartbeats come to an election time-out, as by etcd's defaults.
const heartbeats = 10

// Member is how one member of an etcd cluster is started.
type Member struct {
	// Dir is its data directory.
	Dir string
	// Client and Peer are the host:port at which it listens to clients and to the other members.
	Client, Peer string
	// Peers are the peer addresses of all members.
	Peers []string
	// Election is etcd's election time-out; 0 is etcd's default, one second. Heartbeats come ten
	// times as often.
	Election time.Duration
}

// Command is the command that runs the member, as a process of its own.
func (m Member) Command(flavour Flavour) (*exec.Cmd, error) {
	path, args, env, err := m.program(flavour)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(environment(), env...)
	return cmd, nil
}

// program is what Command runs.
func (m Member) program(flavour Flavour) (path string, args, env []string, err error) {
	election := int(m.Election / time.Millisecond)
	if flavour == Etcd34 {
		return etcdPath, m.flags34(election), nil, nil
	}
	if path, err = os.Executable(); err != nil {
		return "", nil, nil, err
	}
	config, err := json.Marshal(serveConfig{DataDir: m.Dir, Client: m.Client, Peer: m.Peer, Peers: m.Peers,
		Election: election})
	return path, nil, []string{serveEnv + "=" + string(config)}, err
}

func (m Member) flags34(election int) []string {
	var all []string
	for _, p := range m.Peers {
		all = append(all, p+"=http://"+p)
	}
	client, peer := "http://"+m.Client, "http://"+m.Peer
	args := []string{"--name=" + m.Peer, "--data-dir=" + m.Dir, "--listen-client-urls=" +
		client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=" + strings.Join(all, ","),
		"--initial-cluster-token=" + strings.Join(m.Peers, ","), fmt.Sprintf("--bcrypt-cost=%d", leastBcryptCost)}
	if election > 0 {
		args = append(args, fmt.Sprintf("--election-timeout=%d", election),
			fmt.Sprintf("--heartbeat-interval=%d", election/heartbeats))
	}
	return args
}
