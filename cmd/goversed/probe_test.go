package main

import (
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// probeHandler serves the answers that a probe may get.
func probeHandler() http.Handler {
	mux := http.NewServeMux()
	for path, code := range map[string]int{"/ok": 200, "/empty": 204, "/not-ready": 503, "/missing": 404} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			if code != http.StatusNoContent {
				_, _ = w.Write([]byte("state: starting\n")) // the recorder never fails
			}
		})
	}
	mux.Handle("/moved", http.RedirectHandler("/ok", http.StatusFound))
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return mux
}

func TestProbe(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(probeHandler())
	defer server.Close()
	env := map[string]string{"GOVERSE_TIMEOUT": "20s"} // the machine may be busy
	for _, path := range []string{"/ok", "/empty"} {
		require.Equal(t, runResult{}, runGoversed(t, env, "probe", server.URL+path), path)
	}
	for path, says := range map[string]string{"/not-ready": "503 Service Unavailable: state: starting", "/missing": "404",
		"/moved": "302 Found"} {
		requireOneLine(t, runGoversed(t, env, "probe", server.URL+path), cli.ExitFailure, server.URL+path, says)
	}
	requireOneLine(t, runGoversed(t, nil, "probe", "--timeout", "50ms", server.URL+"/slow"), cli.ExitFailure,
		"did not answer in time; see --timeout")
	gone := httptest.NewServer(nil)
	gone.Close()
	requireOneLine(t, runGoversed(t, env, "probe", gone.URL), cli.ExitFailure, "connection refused")
}

func TestProbeHTTPS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(probeHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake is expected to fail
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}), 0o600))
	requireOneLine(t, runGoversed(t, nil, "probe", "--timeout", "20s", server.URL+"/ok"), cli.ExitFailure, "certificate")
	require.Equal(t, runResult{}, runGoversed(t, nil, "probe", "--timeout", "20s", "--cacert", file, server.URL+"/ok"))
}

// The health check of a node follows the node's own settings.
func TestProbeSelf(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	plain, secure := httptest.NewServer(mux), httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake is expected to fail
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	_, port, err := net.SplitHostPort(plain.Listener.Addr().String())
	require.NoError(t, err)
	write := func(name string, der []byte) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
		return file
	}
	own, another := write("own.pem", secure.Certificate().Raw), write("another.pem", []byte("another"))
	config := filepath.Join(t.TempDir(), "goversed.yaml")
	require.NoError(t, os.WriteFile(config, []byte("http: :"+port+"\nttl: 5s\ntimeout: 20s\n"), 0o600))
	base := map[string]string{"GOVERSE_TIMEOUT": "20s", "GOVERSE_HTTP": ":" + port}
	with := func(name, value string, more ...string) map[string]string {
		env := maps.Clone(base)
		env[name] = value
		for i := 0; i+1 < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	for _, c := range []struct {
		env  map[string]string
		line string
	}{
		{base, "probe --self"},
		{base, "probe --self /livez"},
		{nil, "probe --self --config " + config},
		{with("GOVERSE_HTTP", "0.0.0.0:"+port), "probe --self"},
		{with("GOVERSE_HTTP", secure.Listener.Addr().String(), "GOVERSE_HTTP_CERT", own), "probe --self"},
		{with("GOVERSE_HTTP", "none", "GOVERSE_LISTEN", ":"+port), "probe --self"},
	} {
		require.Equal(t, runResult{}, runGoversed(t, c.env, strings.Fields(c.line)...), "%s %v", c.line, c.env)
	}
	for _, c := range []struct {
		env  map[string]string
		line string
		code int
		says string
	}{
		{base, "probe --self /readyz", cli.ExitFailure, "503 Service Unavailable"},
		{with("GOVERSE_HTTP", secure.Listener.Addr().String(), "GOVERSE_HTTP_CERT", another), "probe --self",
			cli.ExitFailure, "another certificate than that of --http-cert is shown"},
		{with("GOVERSE_HTTP", "127.0.0.1:1"), "probe --self", cli.ExitFailure, "connection refused"},
		{with("GOVERSE_HTTP", "none", "GOVERSE_LISTEN", "127.0.0.1:1"), "probe --self", cli.ExitFailure,
			"connection refused"},
		{with("GOVERSE_HTTP", ":0"), "probe --self", cli.ExitUsage, "--http :0: the node draws a port at each start"},
		{with("GOVERSE_HTTP", "nowhere"), "probe --self", cli.ExitUsage, "--http nowhere: write it as the node has it"},
		{with("GOVERSE_HTTP_CERT", "/none"), "probe --self", cli.ExitUsage, "--http-cert /none: name the file"},
		{base, "probe --self readyz", cli.ExitUsage, `PATH "readyz": with --self it is a path`},
		{base, "probe --self /livez /readyz", cli.ExitUsage, `unexpected argument "/readyz": one page at a time`},
	} {
		requireOneLine(t, runGoversed(t, c.env, strings.Fields(c.line)...), c.code, c.says)
	}
}

func TestLoopbackOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{":1": "127.0.0.1:1", "0.0.0.0:1": "127.0.0.1:1", "[::]:1": "[::1]:1",
		"10.0.0.1:1": "10.0.0.1:1", "localhost:1": "localhost:1", "[::1]:1": "[::1]:1"} {
		found, err := loopbackOf("--http", address)
		require.NoError(t, err)
		require.Equal(t, want, found)
	}
}
