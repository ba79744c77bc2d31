package daemon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

const canaryToken = "canary-0123456789abcdef-token"

// writeTokens writes a file of tokens.
func writeTokens(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// newTLSClient returns a client that trusts an authority and presents a certificate.
func newTLSClient(t *testing.T, trust *certtest.Authority, shows ...certtest.Certificate) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	require.True(t, config.RootCAs.AppendCertsFromPEM(trust.PEM))
	for _, c := range shows {
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		require.NoError(t, err)
		config.Certificates = append(config.Certificates, pair)
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config},
		Timeout: 30 * time.Second}
}

// callAdmin makes an admin call and returns the answer.
func callAdmin(t *testing.T, c *http.Client, base, path, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/cluster/admin/"+path,
		strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func TestHTTPSAndAdminCalls(t *testing.T) {
	t.Parallel()
	public, ops, e := certtest.NewAuthority(t), certtest.NewAuthority(t), etcdtest.Start(t)
	f := certtest.NewFiles(t)
	f.Write(t, public.Issue(t, []string{"127.0.0.1"}))
	f.WriteCA(t, ops)
	cfg := joinConfig(t, e.Endpoint())
	cfg.HTTPTLS.CertFile, cfg.HTTPTLS.KeyFile, cfg.HTTPTLS.CAFile = f.Cert, f.Key, f.CA
	cfg.HTTPTLS.Interval = time.Millisecond
	cfg.Admin = Admin{TokenFile: writeTokens(t, canaryToken+"\n\nthe second token here\n"), Clients: []string{"alice"}}
	first, log := startLogged(t, cfg)
	base := "https://" + first.HTTPAddress()
	anybody := newTLSClient(t, public)
	require.Eventually(t, func() bool {
		resp, err := anybody.Get(base + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, patience, tick)
	second := startDaemon(t, joinConfig(t, e.Endpoint()))
	require.Eventually(t, func() bool { return len(second.waitReady(t).Queue) == 2 }, patience, tick)

	var leader httpapi.Leader
	require.Equal(t, http.StatusOK, getJSON(t, second.HTTPAddress(), "/cluster/leader", &leader))
	require.Equal(t, base, leader.APIURL, "others know it by a URL")
	log.Await(t, "serving https")
	code, text := callAdmin(t, anybody, base, "transfer", canaryToken, `{"to":"`+second.NodeAddress()+`"}`)
	require.Equal(t, http.StatusOK, code, text)
	require.Eventually(t, func() bool { return len(second.waitReady(t).Queue) == 2 }, patience, tick)
	code, text = callAdmin(t, anybody, base, "resign", "the second token here", "{}")
	require.Equal(t, http.StatusOK, code, text)
	for name, c := range map[string]struct {
		client *http.Client
		token  string
		code   int
	}{
		"nobody":       {anybody, "", http.StatusUnauthorized},
		"a guess":      {anybody, canaryToken + "x", http.StatusForbidden},
		"another name": {newTLSClient(t, public, ops.Issue(t, []string{"mallory"})), "", http.StatusForbidden},
	} {
		code, text := callAdmin(t, c.client, base, "undrain", c.token, "{}")
		require.Equal(t, c.code, code, "%s: %s", name, text)
	}
	alice := newTLSClient(t, public, ops.Issue(t, []string{"alice"}))
	code, text = callAdmin(t, alice, base, "undrain", "", `{"node":"`+second.NodeAddress()+`"}`)
	require.Equal(t, http.StatusOK, code, text)
	require.Contains(t, log.String(), `by="token of line 1"`)
	require.Contains(t, log.String(), `by="token of line 3"`)
	require.Contains(t, log.String(), `by="certificate alice"`)

	// Tokens and certificates can be replaced while the daemon runs.
	require.NoError(t, os.WriteFile(cfg.Admin.TokenFile, []byte("quite another token\n"), 0o600))
	code, _ = callAdmin(t, anybody, base, "undrain", canaryToken, "{}")
	require.Equal(t, http.StatusForbidden, code)
	code, _ = callAdmin(t, anybody, base, "undrain", "quite another token", "{}")
	require.Equal(t, http.StatusBadRequest, code)
	require.NoError(t, os.Remove(cfg.Admin.TokenFile))
	code, text = callAdmin(t, anybody, base, "undrain", "quite another token", "{}")
	require.Equal(t, http.StatusForbidden, code)
	require.NotContains(t, text, cfg.Admin.TokenFile)
	log.Await(t, "the tokens cannot be read")
	other := certtest.NewAuthority(t)
	f.Write(t, other.Issue(t, []string{"127.0.0.1"}))
	changed := newTLSClient(t, other)
	require.Eventually(t, func() bool {
		resp, err := changed.Get(base + "/livez")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	}, patience, tick)
	require.NotContains(t, log.String(), canaryToken)
	first.stop()
	require.NoError(t, first.waitStopped(t))
}

func TestAdminConfiguration(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	f := certtest.NewFiles(t)
	f.Write(t, a.Issue(t, []string{"127.0.0.1"}))
	f.WriteCA(t, a)
	good := writeTokens(t, canaryToken)
	pair := func(cert, key string) func(*Config) {
		return func(c *Config) { c.HTTPTLS.CertFile, c.HTTPTLS.KeyFile = cert, key }
	}
	for says, change := range map[string]func(*Config){
		"--http-cert and --http-key belong together": func(c *Config) { c.HTTPTLS.CertFile = f.Cert },
		"--http-client-ca needs --http-cert":         func(c *Config) { c.HTTPTLS.CAFile = f.CA },
		"--admin-client needs --http-client-ca":      func(c *Config) { c.Admin.Clients = []string{"alice"} },
		"are both given: give one of them": func(c *Config) {
			c.Admin.TokenFile, c.Admin.Token = good,
				canaryToken
		},
		"--http is none, and there are":            func(c *Config) { c.HTTP, c.Admin.Token = "", canaryToken },
		"GOVERSE_ADMIN_TOKEN has 5 bytes: give 16": func(c *Config) { c.Admin.Token = "short" },
		"--admin-token-file: name a file":          func(c *Config) { c.Admin.TokenFile = "/none" },
		"it has no token: write one a line":        func(c *Config) { c.Admin.TokenFile = writeTokens(t, " \n\n") },
		"the token in line 2 has 5 bytes": func(c *Config) {
			c.Admin.TokenFile = writeTokens(t,
				canaryToken+"\nshort")
		},
		"--http-cert /none: name a file":             pair("/none", f.Key),
		"--http-key " + f.CA + ": name the PEM file": pair(f.Cert, f.CA),
	} {
		cfg := embeddedConfig(t)
		change(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "\n")
		require.NotContains(t, err.Error(), canaryToken)
		require.NoDirExists(t, cfg.Etcd.DataDir)
	}
}

// Tokens in plain text are acceptable on the loopback interface only; otherwise a warning is logged.
func TestTokensInPlainText(t *testing.T) {
	t.Parallel()
	for listen, warned := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		cfg := embeddedConfig(t)
		cfg.HTTP, cfg.Admin.Token = listen, canaryToken
		d, log := startLogged(t, cfg)
		require.Equal(t, warned, log.Count("admin tokens travel in plain text") == 1, listen)
		require.NotContains(t, log.String(), canaryToken)
		d.stop()
		_ = d.waitStopped(t)
	}
}

// apiPaths returns the paths of an API by method, from its own description.
func apiPaths(t *testing.T, address string) map[string][]string {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.Equal(t, http.StatusOK, getJSON(t, address, "/openapi.json", &doc))
	out := map[string][]string{}
	for path, methods := range doc.Paths {
		for method, described := range methods {
			if bytes.Contains(described, []byte("text/event-stream")) {
				continue // its response does not end
			}
			out[strings.ToUpper(method)] = append(out[strings.ToUpper(method)], path)
		}
	}
	require.Greater(t, len(out[http.MethodGet]), 10)
	require.Greater(t, len(out[http.MethodPost]), 5)
	return out
}
