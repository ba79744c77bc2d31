// Package etcdproc runs the etcd under test as a process of its own, so that its
// work is not counted as the work of the program that measures, and so that every
// request crosses a TCP socket as it does in a real cluster.
//
// The process is this very binary, started again with [ServeArg]. It serves an
// embedded etcd with etcd's default timing and with fsync, and ends when its
// standard input closes: nothing is left behind if the parent dies.
//
// # What is not promised
//
// The two processes share the machine's cores. Figures from a machine with few of
// them contain the scheduler.
package etcdproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/goverse/goverse/embedetcd"
)

// ServeArg as the only argument makes the binary an etcd server; see [Serve].
const ServeArg = "serve-etcd"

const (
	readyPrefix  = "etcd serves at "
	startTimeout = 30 * time.Second
)

// Serve runs etcd until standard input closes. It is what the started process does.
func Serve() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := embedetcd.Start(ctx, embedetcd.Config{})
	if err != nil {
		return err
	}
	fmt.Println(readyPrefix + server.Endpoint())
	parent := make(chan struct{})
	go func() { // ends with the parent, at the latest with this process
		defer close(parent)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-parent:
		return server.Close()
	case <-server.Done():
		return errors.Join(server.Err(), server.Close())
	}
}

// Process is a running etcd.
type Process struct {
	// Endpoint is the host:port at which it serves clients and metrics.
	Endpoint string

	cmd   *exec.Cmd
	stdin io.Closer
}

// Start starts the process and returns once it serves. End it with Stop.
func Start() (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it again as etcd: %w", err)
	}
	cmd := exec.Command(self, ServeArg)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start etcd's process: %w", err)
	}
	p := &Process{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if endpoint, ok := strings.CutPrefix(strings.TrimSpace(line), readyPrefix); ok {
		p.Endpoint = endpoint
		return p, nil
	}
	return nil, errors.Join(errors.New("etcd's process did not begin to serve; its error is above"), err, p.Stop())
}

// Stop ends the process, its data included, and waits for it.
func (p *Process) Stop() error {
	_ = p.stdin.Close() // Wait returns what matters
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("etcd's process: %w", err)
	}
	return nil
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }
