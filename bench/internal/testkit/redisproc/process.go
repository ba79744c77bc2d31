// Package redisproc starts a Redis server from the installed package, for benchmarks that compare with a lock
// library on Redis.
//
// The server has its default configuration, so it answers before a write is on disk. It listens only at a port
// of 127.0.0.1, and works in a directory that is removed at the end.
//
// # What is not promised
//
// On systems other than Linux, the server does not end with a process that is killed.
package redisproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/server"
)

// ErrNotInstalled is returned when there is no Redis server on this machine.
var ErrNotInstalled = errors.New("redis-server is not installed: apt-get install redis-server")

const stopTimeout = 5 * time.Second

// Server is one running Redis server.
type Server struct {
	// Address is the host:port at which it listens.
	Address string

	dir string
	run *fault.Process
}

// Start starts a server and returns when it answers. Close ends it. Errors are ErrNotInstalled, or include the
// server's output.
func Start(ctx context.Context) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNotInstalled, err)
	}
	dir, err := os.MkdirTemp("", "goverse-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	err = server.Draw(func(port string) error {
		s.Address = net.JoinHostPort(server.Host, port)
		c := redis.NewClient(&redis.Options{Addr: s.Address, MaxRetries: -1})
		defer func() { _ = c.Close() }()
		s.run, err = server.Start(ctx, exec.Command(program, "--bind", server.Host, "--port", port, "--dir", dir),
			func(ctx context.Context) error { return c.Ping(ctx).Err() })
		return err
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Close ends the server, waits for it, and removes its directory.
func (s *Server) Close() error {
	_, _ = s.run.Signal(syscall.SIGTERM) // it may have ended already
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_, _ = s.run.Exit(ctx) // otherwise Close kills it
	return errors.Join(s.run.Close(), os.RemoveAll(s.dir))
}
