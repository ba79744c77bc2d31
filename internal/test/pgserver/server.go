//go:build unix

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/server"
)

// ErrNotInstalled is returned when no PostgreSQL server is installed on this machine.
var ErrNotInstalled = errors.New("PostgreSQL's server is not installed: apt-get install postgresql")

// restartTimeout limits the retries of Restart.
const restartTimeout = time.Minute

// Server is one PostgreSQL server with an empty database. Its methods must not be called concurrently.
type Server struct {
	bin, dir, port string
	args           []string
	credential     *syscall.Credential // nil for this process's own
	process        *fault.Process
}

// Start creates a server and returns when it answers. args are passed to the program postgres at every start.
// The error is ErrNotInstalled or contains the server's output.
func Start(args ...string) (*Server, error) {
	bin, err := installedDir()
	if err != nil {
		return nil, err
	}
	who, err := serverCredential()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "goverse-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, args: args, credential: who}
	if err := s.initialize(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// initialize initializes the directory and starts the server on a free port.
func (s *Server) initialize() error {
	if s.credential != nil {
		if err := os.Chown(s.dir, int(s.credential.Uid), int(s.credential.Gid)); err != nil {
			return err
		}
	}
	made := s.command("initdb", "--pgdata="+s.dataDir(), "--username=postgres", "--auth=trust", "--encoding=UTF8",
		"--locale=C", "--no-sync")
	if out, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := s.trustLoopback(); err != nil {
		return err
	}
	return server.Draw(func(port string) error {
		s.port = port
		return s.start()
	})
}

// trustLoopback admits clients from all addresses of this machine's loopback network; initdb admits one.
func (s *Server) trustLoopback() error {
	f, err := os.OpenFile(filepath.Join(s.dataDir(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("host all all 127.0.0.0/8 trust\n")
	return errors.Join(err, f.Close())
}

// URL returns the URL of the server's database.
func (s *Server) URL() string {
	return "postgres://postgres@" + s.Address() + "/postgres?sslmode=disable"
}

// Address returns the host:port that the server listens on.
func (s *Server) Address() string { return net.JoinHostPort(server.Host, s.port) }

// Restart starts the server after Kill, on the same data and port, and returns when it answers. The server
// refuses to start while a process of its predecessor remains; Restart then tries again, for up to a minute.
func (s *Server) Restart() error {
	deadline := time.Now().Add(restartTimeout)
	for again := time.NewTicker(10 * time.Millisecond); ; <-again.C {
		if err := s.start(); err == nil || time.Now().After(deadline) {
			again.Stop()
			return err
		}
	}
}

// SetEpoch stops the server in order and starts it again with transaction numbers from epoch times 2^32 on, as
// after years of work.
func (s *Server) SetEpoch(epoch int) error {
	s.stopWith(syscall.SIGINT)
	if out, err := s.command("pg_resetwal", "--epoch="+strconv.Itoa(epoch), s.dataDir()).CombinedOutput(); err != nil {
		return fmt.Errorf("pg_resetwal: %w\n%s", err, out)
	}
	return s.start()
}

func (s *Server) start() (err error) {
	cmd := s.command("postgres", slices.Concat([]string{"-D", s.dataDir(), "-h", server.Host, "-p", s.port,
		"-k", "", "-c", "max_connections=300"}, s.args)...)
	s.process, err = server.Start(context.Background(), cmd, func(context.Context) error {
		return s.command("pg_isready", "--quiet", "--host="+server.Host, "--port="+s.port).Run()
	})
	return err
}

// Kill ends the server with SIGKILL. Its child processes end when they notice.
func (s *Server) Kill() { s.stopWith(syscall.SIGKILL) }

func (s *Server) stopWith(how syscall.Signal) {
	if s.process == nil {
		return
	}
	_, _ = s.process.Signal(how) // it may have ended already
	<-s.process.Done()
	s.process = nil
}

// Close ends the server and all its processes at once, and removes its data.
func (s *Server) Close() error {
	s.stopWith(syscall.SIGQUIT)
	return os.RemoveAll(s.dir)
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

// command returns a command that runs one of PostgreSQL's programs.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	if s.credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	}
	return cmd
}

// installedDir returns the program directory of the newest installed server.
func installedDir() (string, error) {
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
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0: not Debian's layout
	return n
}

// RestartFast stops the server as pg_ctl restart -m fast does, and starts it again.
func (s *Server) RestartFast() error {
	s.stopWith(syscall.SIGINT)
	return s.Restart()
}

// RestartImmediately stops the server as pg_ctl restart -m immediate does, without a checkpoint, and starts it again.
func (s *Server) RestartImmediately() error {
	s.stopWith(syscall.SIGQUIT)
	return s.Restart()
}
