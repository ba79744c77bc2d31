//go:build unix

package procs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/internal/test/needed"
)

// ControllerPath returns the path of the program in examples/controller, built from this checkout.
func (k *Kit) ControllerPath(t testing.TB) string {
	t.Helper()
	path, err := k.controller()
	require.NoError(t, err)
	return path
}

// Nginx starts nginx with one of deploy's configurations, after replacing its documented addresses according to
// replace. It returns without waiting until nginx serves. If nginx is not installed the test is skipped, or
// fails if GOVERSE_REQUIRE names nginx.
func (k *Kit) Nginx(t testing.TB, config string, replace map[string]string) *Process {
	t.Helper()
	path := programPath(t, "nginx", "nginx-light", "/usr/sbin/nginx")
	dir := t.TempDir()
	included := filepath.Join(dir, "goverse.conf")
	require.NoError(t, os.WriteFile(included, []byte(replaceAddresses(t, config, replace)), 0o600))
	// Run a single process, so that none is left behind if the test's process is killed.
	whole := `daemon off; master_process off; worker_rlimit_nofile 4096;
pid ` + dir + `/pid; error_log stderr warn;
events { worker_connections 2048; }
http {
	access_log off;
	client_body_temp_path ` + dir + `/body; proxy_temp_path ` + dir + `/proxy; fastcgi_temp_path ` + dir + `/fastcgi;
	uwsgi_temp_path ` + dir + `/uwsgi; scgi_temp_path ` + dir + `/scgi;
	include ` + included + `;
}
`
	main := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(main, []byte(whole), 0o600))
	checkConfig(t, path, "-t", "-q", "-c", main)
	return k.Start(t, "nginx", path, []string{"-c", main}, nil)
}

// Haproxy is like Nginx, but for HAProxy.
func (k *Kit) Haproxy(t testing.TB, config string, replace map[string]string) *Process {
	t.Helper()
	path := programPath(t, "haproxy", "haproxy", "/usr/sbin/haproxy")
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	require.NoError(t, os.WriteFile(file, []byte(replaceAddresses(t, config, replace)), 0o600))
	checkConfig(t, path, "-c", "-q", "-f", file)
	return k.Start(t, "haproxy", path, []string{"-db", "-f", file}, nil)
}

// programPath returns the path of a program.
func programPath(t testing.TB, name, pkg, otherwise string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path = otherwise // a user's PATH may lack it
	}
	if _, err := os.Stat(path); err != nil {
		needed.Missing(t, name, name+" is not installed: apt-get install "+pkg)
	}
	return path
}

// replaceAddresses returns a file's text with other addresses. Each address to replace must occur in it.
func replaceAddresses(t testing.TB, file string, replace map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	out := string(text)
	for before, after := range replace {
		require.Contains(t, string(text), before, file)
		out = strings.ReplaceAll(out, before, after)
	}
	return out
}

// checkConfig runs a program's check of its configuration, which must succeed.
func checkConfig(t testing.TB, path string, args ...string) {
	t.Helper()
	out, err := exec.Command(path, args...).CombinedOutput()
	require.NoError(t, err, string(out))
}
