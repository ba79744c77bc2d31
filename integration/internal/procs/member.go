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

// heartbeatsPerElection is the number of heartbeats per election timeout, as in etcd's defaults.
const heartbeatsPerElection = 10

// Member configures one member of an etcd cluster.
type Member struct {
	// Dir is the data directory.
	Dir string
	// Client and Peer are the host:port for clients and for the other members.
	Client, Peer string
	// Peers holds the peer addresses of all members.
	Peers []string
	// Election is etcd's election timeout; 0 means etcd's default, one second. Heartbeats are ten times as
	// frequent.
	Election time.Duration
}

// Command returns the command that runs the member as a process of its own.
func (m Member) Command(flavour Flavour) (*exec.Cmd, error) {
	path, args, env, err := m.commandParts(flavour)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(environment(), env...)
	return cmd, nil
}

// commandParts returns the parts of Command's command.
func (m Member) commandParts(flavour Flavour) (path string, args, env []string, err error) {
	election := int(m.Election / time.Millisecond)
	if flavour != Etcd37 {
		return serverPath(flavour), m.programFlags(election), nil, nil
	}
	if path, err = os.Executable(); err != nil {
		return "", nil, nil, err
	}
	config, err := json.Marshal(serveConfig{DataDir: m.Dir, Client: m.Client, Peer: m.Peer, Peers: m.Peers,
		Election: election})
	return path, nil, []string{serveEnv + "=" + string(config)}, err
}

// programFlags returns the flags of an etcd server of any version.
func (m Member) programFlags(election int) []string {
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
			fmt.Sprintf("--heartbeat-interval=%d", election/heartbeatsPerElection))
	}
	return args
}
