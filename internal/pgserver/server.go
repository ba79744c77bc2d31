//go:build unix

package pgserver

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/goverse/goverse/internal/child"
	"github.com/goverse/goverse/internal/port"
)

// ErrNotInstalled: there is no PostgreSQL server on this machine.
var ErrNotInstalled = errors.New("PostgreSQL's server is not installed: apt-get install postgresql")

const (
	// Ports are drawn from below the range that the usual systems give to outgoing
	// connections, so that a server finds its port free when it is restarted.
	firstPort, lastPort = 20000, 28000
	drawings            = 20

	startTimeout = 20 * time.Second
	interval     = 5 * time.Millisecond
)

// Server is one PostgreSQL server with an empty database. Its methods are to be called by one
// goroutine at a time.
type Server struct {
	bin, dir string
	port     int
	who      *syscall.Credential // nil: this process's own
	starter  *child.Starter
	run      *running
}

// running is one run of the server.
type running struct {
	cmd   *exec.Cmd
	ended chan struct{}
	said  output
}

type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Start makes a server and returns when it answers. args are further arguments of the
// program postgres. Errors are ErrNotInstalled, or what the server said.
func Start(args ...string) (*Server, error) {
	bin, err := installed()
	if err != nil {
		return nil, err
	}
	who, err := identity()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "goverse-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, who: who, starter: child.NewStarter()}
	if err := s.create(args); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// create makes the directory and starts the server at a port that is free.
func (s *Server) create(args []string) error {
	if s.who != nil {
		if err := os.Chown(s.dir, int(s.who.Uid), int(s.who.Gid)); err != nil {
			return err
		}
	}
	made := s.command("initdb", "--pgdata="+s.data(), "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	if out, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	var err error
	for range drawings {
		s.port = firstPort + rand.IntN(lastPort-firstPort)
		if port.Probe(s.address()) != nil {
			continue
		}
		if err = s.start(args); err == nil {
			return nil
		}
		// Another program may have been faster.
		if port.Probe(s.address()) == nil {
			return err
		}
	}
	return errors.Join(fmt.Errorf("found no free port of 127.0.0.1 from %d to %d", firstPort, lastPort), err)
}

// URL is how clients reach the server.
func (s *Server) URL() string {
	return "postgres://postgres@" + s.address() + "/postgres?sslmode=disable"
}

// Address is the host:port at which the server listens.
func (s *Server) Address() string { return s.address() }

// Restart starts the server, again on its data and its port, after Kill. It returns when it
// answers. The server refuses to start while a process of the one before is not gone yet: it
// is then started once more.
func (s *Server) Restart(args ...string) error {
	deadline := time.Now().Add(startTimeout)
	for again := time.NewTicker(interval); ; <-again.C {
		if err := s.start(args); err == nil || time.Now().After(deadline) {
			again.Stop()
			return err
		}
	}
}

// SetEpoch stops the server in order, and starts it again with transactions that are numbered from
// epoch times 2^32 on, as after years of work.
func (s *Server) SetEpoch(epoch int, args ...string) error {
	s.end(syscall.SIGINT)
	if out, err := s.command("pg_resetwal", "--epoch="+strconv.Itoa(epoch), s.data()).CombinedOutput(); err != nil {
		return fmt.Errorf("pg_resetwal: %w\n%s", err, out)
	}
	return s.start(args)
}

func (s *Server) start(args []string) error {
	r := &running{ended: make(chan struct{})}
	r.cmd = s.command("postgres", slices.Concat([]string{"-D", s.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(s.port),
		"-k", "", "-c", "max_connections=300"}, args)...)
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	if err := s.starter.Start(r.cmd); err != nil {
		return err
	}
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // what it said tells more
	}()
	s.run = r
	again := time.NewTicker(interval)
	defer again.Stop()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); <-again.C {
		ready := s.command("pg_isready", "--quiet", "--host=127.0.0.1", "--port="+strconv.Itoa(s.port)).Run() == nil
		select {
		case <-r.ended:
			return fmt.Errorf("postgres ended:\n%s", &r.said)
		default:
		}
		if ready {
			return nil
		}
	}
	s.Kill()
	return fmt.Errorf("postgres did not answer within %v:\n%s", startTimeout, &r.said)
}

// Kill ends the server by SIGKILL; the processes it has started end when they notice.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(how syscall.Signal) {
	if s.run == nil {
		return
	}
	_ = s.run.cmd.Process.Signal(how) // gone already: fine
	<-s.run.ended
	s.run = nil
}

// Close ends the server at once, with all of its processes, and removes its data.
func (s *Server) Close() error {
	s.end(syscall.SIGQUIT)
	s.starter.Close()
	return os.RemoveAll(s.dir)
}

func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// command is one of PostgreSQL's programs.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	if s.who != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.who}
	}
	return cmd
}

// installed is the directory of the newest server's programs.
func installed() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	newest := slices.MaxFunc(append(found, ""), func(a, b string) int { return version(a) - version(b) })
	if newest != "" {
		return filepath.Dir(newest), nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", ErrNotInstalled
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0: not Debian's
	return n
}
