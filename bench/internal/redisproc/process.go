// Package redisproc runs a Redis server of its own, from the installed package, for a
// benchmark to measure a lock library beside it.
//
// The server has its default configuration, so it answers before anything is on the disk. It
// listens at a port of 127.0.0.1 only, and works in a directory that is removed at the end.
//
// # What is not promised
//
// That the server ends with a process that is killed, on systems other than Linux.
package redisproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goverse/goverse/internal/child"
	"github.com/goverse/goverse/internal/port"
)

// ErrNotInstalled: there is no Redis server on this machine.
var ErrNotInstalled = errors.New("redis-server is not installed: apt-get install redis-server")

const (
	// Ports are drawn from below the range that the usual systems give to outgoing
	// connections.
	firstPort, lastPort = 20000, 28000
	drawings            = 20

	startTimeout, stopTimeout = 20 * time.Second, 5 * time.Second
	interval                  = 5 * time.Millisecond
)

// Server is one running Redis server.
type Server struct {
	// Address is the host:port at which it listens.
	Address string

	dir     string
	starter *child.Starter
	cmd     *exec.Cmd
	ended   chan struct{}
	said    bytes.Buffer // to be read when it has ended
}

// Start starts a server and returns when it answers; end it with Close. Errors are
// ErrNotInstalled, or what the server said.
func Start(ctx context.Context) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNotInstalled, err)
	}
	for range drawings {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort)))
		if port.Probe(address) != nil {
			continue
		}
		s, failed := start(ctx, program, address)
		if failed == nil {
			return s, nil
		}
		// Another program may have been faster.
		if err = failed; port.Probe(address) == nil {
			return nil, err
		}
	}
	return nil, errors.Join(fmt.Errorf("found no free port of 127.0.0.1 from %d to %d", firstPort, lastPort), err)
}

func start(ctx context.Context, program, address string) (*Server, error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "goverse-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{Address: address, dir: dir, starter: child.NewStarter(), ended: make(chan struct{})}
	s.cmd = exec.Command(program, "--bind", host, "--port", number, "--dir", dir)
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	if err := s.starter.Start(s.cmd); err != nil {
		s.starter.Close()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // what it said tells more
	}()
	if err := s.ready(ctx); err != nil {
		err = errors.Join(err, s.Close())
		return nil, fmt.Errorf("start redis-server: %w\n%s", err, &s.said)
	}
	return s, nil
}

// ready returns when the server answers.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.Address, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		err := c.Ping(ctx).Err()
		select {
		case <-s.ended: // and who answered, if anybody did, is another one
			return errors.New("it ended")
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// Close ends the server, waits for it, and removes its directory.
func (s *Server) Close() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // gone already: fine
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	s.starter.Close()
	return os.RemoveAll(s.dir)
}
