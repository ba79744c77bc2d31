//go:build unix

package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/server"
)

// ErrNotInstalled is returned when no Redis server is installed on this machine.
var ErrNotInstalled = errors.New("redis-server is not installed: apt-get install redis-server")

// Server is one Redis server. Its methods must not be called concurrently.
type Server struct {
	program, dir, port string
	args               []string
	process            *fault.Process
}

// Start starts a server and returns when it answers. args are passed to the program at every start. The error is
// ErrNotInstalled or contains the server's output.
func Start(args ...string) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrNotInstalled, err)
	}
	dir, err := os.MkdirTemp("", "goverse-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, dir: dir, args: args}
	err = server.Draw(func(port string) error {
		s.port = port
		return s.start()
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Address returns the host:port that the server listens on.
func (s *Server) Address() string { return net.JoinHostPort(server.Host, s.port) }

func (s *Server) start() (err error) {
	client := redis.NewClient(&redis.Options{Addr: s.Address(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }() // nothing is lost with it
	cmd := exec.Command(s.program, slices.Concat([]string{"--bind", server.Host, "--port", s.port, "--dir", s.dir,
		"--save", ""}, s.args)...)
	s.process, err = server.Start(context.Background(), cmd,
		func(ctx context.Context) error { return client.Ping(ctx).Err() })
	return err
}

// Restart starts the server after Kill, on the same data and port, and returns when it answers.
func (s *Server) Restart() error { return s.start() }

// Kill ends the server with SIGKILL. It may have ended before.
func (s *Server) Kill() {
	_, _ = s.process.Signal(syscall.SIGKILL)
	<-s.process.Done()
}

// Freeze stops all threads of the server. Its sockets stay open, and the kernel keeps what clients send.
func (s *Server) Freeze() error {
	_, err := s.process.Freeze()
	return err
}

// Thaw lets a server that is frozen continue.
func (s *Server) Thaw() error {
	_, err := s.process.Thaw()
	return err
}

// Close ends the server at once and removes its data.
func (s *Server) Close() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}
