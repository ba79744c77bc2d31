package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// Secrets of the node and of its operator that could leak into any output below.
const (
	canaryPassword = "canary/password+of=this&test"
	canaryToken    = "canary-token-of-this-test-0123456789"
)

// encodeSecrets returns all usual encodings of the secrets, with a name for each.
func encodeSecrets(keys ...[]byte) map[string]string {
	out := map[string]string{}
	for name, secret := range map[string]string{"the password": canaryPassword, "the token": canaryToken} {
		quoted, _ := json.Marshal(secret)
		out[name] = secret
		out[name+" as JSON"] = strings.Trim(string(quoted), `"`)
		out[name+" in base64"] = base64.StdEncoding.EncodeToString([]byte(secret))[:20]
		out[name+" in hex"] = hex.EncodeToString([]byte(secret))
		out[name+" in a URL"] = url.QueryEscape(secret)
	}
	for _, key := range keys {
		out["a key: "+string(key[:10])] = strings.Split(string(key), "\n")[1]
	}
	return out
}

// findSecrets returns the names of the secrets in a text.
func findSecrets(secrets map[string]string, text string) (names []string) {
	for name, secret := range secrets {
		if strings.Contains(text, secret) {
			names = append(names, name)
		}
	}
	return names
}

// No page, metric, log line, error, help text or key in etcd contains a secret of a node, even with every
// reader at the most verbose level.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	server, a, f := etcdtest.Start(t), certtest.NewAuthority(t), certtest.NewFiles(t)
	cert := a.Issue(t, []string{"127.0.0.1"})
	f.Write(t, cert)
	f.WriteCA(t, a)
	etcdtest.EnableAuth(t, server.Client(), canaryPassword)
	hidden := encodeSecrets(cert.Key)
	require.NotEmpty(t, findSecrets(hidden, "x "+canaryToken), "the test finds them")
	require.NotEmpty(t, findSecrets(hidden, string(cert.Key)))
	env := map[string]string{"GOVERSE_ETCD": server.Endpoint(), "GOVERSE_ETCD_USER": "root",
		"GOVERSE_ETCD_PASSWORD": canaryPassword, "GOVERSE_ADMIN_TOKEN": canaryToken,
		"GOVERSE_NODE_CERT": f.Cert, "GOVERSE_NODE_KEY": f.Key, "GOVERSE_NODE_CA": f.CA}

	ctx, stop := context.WithCancel(t.Context())
	var stdout, stderr logtest.Buffer
	code := make(chan int, 1)
	go func() {
		code <- runCommandLine(ctx, []string{"node", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-cert",
			f.Cert,
			"--http-key", f.Key, "--http-client-ca", f.CA, "--log-level", "trace"}, envLookup(env), &stdout, &stderr)
	}()
	require.Eventually(t, func() bool { return strings.Contains(stderr.String(), "this node is part of the cluster") },
		30*time.Second, 5*time.Millisecond, "%s", &stderr)
	_, line, _ := strings.Cut(stderr.Line("serving https"), "address=")
	base := "https://" + strings.TrimSpace(line)

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(a.PEM))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: 30 * time.Second}
	ask := func(method, path, token string) (status int, text string) {
		r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(r)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		var answer strings.Builder
		require.NoError(t, resp.Header.Write(&answer))
		_, err = io.Copy(&answer, resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, answer.String()
	}
	status, _ := ask(http.MethodPost, "/cluster/admin/resign", canaryToken)
	require.Equal(t, http.StatusOK, status, "the token is the right one")
	_, text := ask(http.MethodGet, "/openapi.json", canaryToken)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &doc))
	require.Greater(t, len(doc.Paths), 20)
	for path, methods := range doc.Paths {
		for method, described := range methods {
			if strings.Contains(string(described), "text/event-stream") {
				continue // it does not end, and shows the same as the pages
			}
			for _, token := range []string{canaryToken, canaryToken + "x"} {
				_, text := ask(strings.ToUpper(method), strings.ReplaceAll(path, "{name}", "it"), token)
				require.Empty(t, findSecrets(hidden, text), "%s %s: %s", method, path, text)
			}
		}
	}
	wrong := map[string]string{"GOVERSE_ETCD": server.Endpoint(), "GOVERSE_ETCD_USER": "nobody",
		"GOVERSE_ETCD_PASSWORD": canaryPassword, "GOVERSE_ADMIN_TOKEN": canaryToken}
	for _, command := range []string{"status", "leader", "nodes", "shards", "shards plan", "objects", "elections",
		"effects", "locks", "events", "doctor", "etcd members",
		"resign", "node --help", "--help", "node --foo", "node --admin-token-file /none --log-level off"} {
		for _, env := range []map[string]string{env, wrong} {
			for _, json := range []bool{true, false} {
				args := strings.Fields(command)
				if json {
					args = append(args, "-o", "json")
				}
				r := runGoversed(t, env, args...)
				require.Empty(t, findSecrets(hidden, r.stdout+r.stderr), "goversed %s: %s%s", command, r.stdout, r.stderr)
			}
		}
	}
	resp, err := newReadClient(t, server.Endpoint()).Get(etcdtest.Context(t), "\x00", clientv3.WithFromKey())
	require.NoError(t, err)
	require.NotEmpty(t, resp.Kvs)
	for _, kv := range resp.Kvs {
		require.Empty(t, findSecrets(hidden, string(kv.Key)+string(kv.Value)), "%s in etcd", kv.Key)
	}
	stop()
	require.Equal(t, cli.ExitOK, <-code, stderr.String())
	require.Contains(t, stderr.String(), "admin call refused")
	require.Contains(t, stderr.String(), "by=\"token GOVERSE_ADMIN_TOKEN\"")
	require.Empty(t, findSecrets(hidden, stdout.String()+stderr.String()), "its log")
}

// newReadClient returns a client with the right to read.
func newReadClient(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Username: "root", Password: canaryPassword})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
