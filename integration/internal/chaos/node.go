//go:build unix

package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/faults"
)

const answerPatience = 10 * time.Second

// chaosNode is one node with the relays around it. At most one fault affects it at a time.
type chaosNode struct {
	w        *world
	index    int
	listen   string
	program  string         // path of the program to start; "": this one
	entrance *fault.Relay   // in front of the node, at its advertise address
	members  []*member      // the members of etcd that it reaches
	links    []*fault.Relay // to each of them
	paths    []*fault.Relay // to each other node, by its index, if there are any; nil to itself

	busy     sync.Mutex   // held by the fault that affects it
	partners []*chaosNode // the other nodes that this fault affects

	mu          sync.Mutex
	process     *fault.Process
	in          io.WriteCloser
	answers     chan string
	endedOutput []string // output of ended processes

	processes int // number of processes started
}

func (n *chaosNode) address() string { return n.entrance.Address() }

// recordPath returns the file for the next process's record. Each process has a file of its own, because a
// killed one may leave an incomplete line.
func (n *chaosNode) recordPath() string {
	n.processes++
	return filepath.Join(n.w.dir, fmt.Sprintf("node%d-%d.jsonl", n.index, n.processes))
}

// start starts the process and waits until it is part of the cluster.
func (n *chaosNode) start(ctx context.Context) error {
	var etcd []string
	for _, l := range n.links {
		etcd = append(etcd, l.Address())
	}
	config, err := json.Marshal(programConfig{Advertise: n.address(), Listen: n.listen, Etcd: strings.Join(etcd, ","),
		TTL: n.w.cfg.TTL, Record: n.recordPath(), Ledger: ledgerPath(n.w.dir), Began: n.w.began,
		DetectionOff: n.w.cfg.DetectionOff, SilenceTimeout: n.w.cfg.SilenceTimeout, Paths: n.pathAddresses()})
	if err != nil {
		return err
	}
	program := n.program
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return err
		}
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), ProgramEnv+"="+string(config))
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, outWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = outWriter
	p, err := fault.StartProcess(cmd)
	_ = outWriter.Close() // the process has its own copy
	if err != nil {
		_ = out.Close()
		return err
	}
	answers := make(chan string, 1)
	n.w.wg.Go(func() {
		defer close(answers)
		defer func() { _ = out.Close() }()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			answers <- lines.Text()
		}
	})
	n.mu.Lock()
	if n.process != nil {
		n.endedOutput = append(n.endedOutput, n.process.Output())
	}
	n.process, n.in, n.answers = p, in, answers
	n.mu.Unlock()
	_, err = n.readAnswer(ctx)
	return err
}

// readAnswer waits for the next line of the process's standard output.
func (n *chaosNode) readAnswer(ctx context.Context) (string, error) {
	n.mu.Lock()
	answers := n.answers
	n.mu.Unlock()
	select {
	case said, ok := <-answers:
		if !ok {
			return "", fmt.Errorf("node %d ended by itself: %s", n.index, n.state())
		}
		return said, nil
	case <-ctx.Done():
		return "", fmt.Errorf("node %d does not answer: %w", n.index, context.Cause(ctx))
	}
}

// ask sends a question to the process, which must not be frozen, and returns its answer.
func (n *chaosNode) ask(ctx context.Context, question string) (string, error) {
	return n.askWithin(ctx, answerPatience, question)
}

func (n *chaosNode) askWithin(ctx context.Context, patience time.Duration, question string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n.mu.Lock()
	in := n.in
	n.mu.Unlock()
	if _, err := fmt.Fprintln(in, question); err != nil {
		return "", fmt.Errorf("ask node %d: %w (%s)", n.index, err, n.state())
	}
	return n.readAnswer(ctx)
}

func (n *chaosNode) status(ctx context.Context) (status, error) {
	var st status
	said, err := n.ask(ctx, askStatus)
	if err == nil {
		err = json.Unmarshal([]byte(said), &st)
	}
	return st, err
}

// checkWell reports whether the node has a session, is queued and sees a leader, and etcd shows the same. It also
// returns the number of shards that the node serves.
func (n *chaosNode) checkWell(ctx context.Context) (serves int, ok bool) {
	st, err := n.status(ctx)
	if err != nil || !st.Ready || st.State == "follower" {
		return 0, false
	}
	s := n.w.mirror.Snapshot()
	m := s.Member(n.address())
	if s.Stale || m == nil || m.Lease != st.Lease {
		return 0, false
	}
	c, _ := s.CandidateOn(m.Lease)
	return len(st.Serves), c != nil
}

func (n *chaosNode) currentProcess() *fault.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

func (n *chaosNode) state() string {
	if p := n.currentProcess(); p != nil {
		return p.State()
	}
	return "not started"
}

// output returns the output of all its processes.
func (n *chaosNode) output() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	said := strings.Join(n.endedOutput, "--- started again\n")
	if n.process != nil {
		said += n.process.Output()
	}
	return said
}

// etcdPath returns its path to etcd, as a target for faults.
func (n *chaosNode) etcdPath() faults.Target { return faults.Target{Relays: n.links} }

// healNetwork removes all network faults around the node.
func (n *chaosNode) healNetwork() error {
	errs := []error{n.entrance.Heal(), n.etcdPath().EndFaults()}
	n.eachPath(func(r *fault.Relay) { errs = append(errs, r.Heal()) })
	return errors.Join(errs...)
}

// close ends the process and the relays.
func (n *chaosNode) close() error {
	var err error
	if p := n.currentProcess(); p != nil {
		err = p.Close()
	}
	n.entrance.Close()
	for _, l := range n.links {
		l.Close()
	}
	n.eachPath(func(r *fault.Relay) { r.Close() })
	return err
}
