//go:build unix

package pgserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/internal/test/needed"
	"github.com/goverse/goverse/internal/test/server"
)

// PooledForTest starts a pgbouncer in front of the server and returns its URL. mode is its pool_mode: "transaction", on
// a few connections, or "session". Where pgbouncer is not installed the test is skipped, or fails if GOVERSE_REQUIRE
// names pgbouncer.
func (s *Server) PooledForTest(t testing.TB, mode string) string {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			needed.Missing(t, "pgbouncer", "pgbouncer is not installed: apt-get install pgbouncer")
		}
	}
	var url string
	var run *fault.Process
	dir, err := os.MkdirTemp("", "goverse-pgbouncer-")
	if err == nil && s.credential != nil {
		err = os.Chown(dir, int(s.credential.Uid), int(s.credential.Gid))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "users"), []byte("\"postgres\" \"\"\n"), 0o644)
	}
	if err == nil {
		err = server.Draw(func(port string) (err error) {
			url = "postgres://postgres@" + net.JoinHostPort(server.Host, port) + "/postgres?sslmode=disable"
			run, err = s.startPooler(path, dir, port, url, mode)
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = run.Signal(syscall.SIGKILL) // it may have ended already
		<-run.Done()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return url
}

func (s *Server) startPooler(path, dir, port, url, mode string) (*fault.Process, error) {
	size := 3
	if mode == "session" {
		size = 50
	}
	config := fmt.Sprintf(`[databases]
postgres = host=%s port=%s
[pgbouncer]
listen_addr = %s
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s/users
pool_mode = %s
default_pool_size = %d
server_round_robin = 1
`, server.Host, s.port, server.Host, port, dir, mode, size)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(path, file)
	cmd.Dir = dir
	if s.credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	}
	return server.Start(context.Background(), cmd, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}
