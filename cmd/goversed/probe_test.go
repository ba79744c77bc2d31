package main

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
