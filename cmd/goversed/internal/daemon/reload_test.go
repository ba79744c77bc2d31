package daemon

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/node/mtls"
)

// On request every file of a node is read again, with one log line each: those of its gRPC, of HTTP, and of its
// embedded etcd, which reads its authorities only at the next start. Unusable files change nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	a, b := certtest.NewAuthority(t), certtest.NewAuthority(t)
	one := func() certtest.Files {
		f := certtest.NewFiles(t)
		f.Write(t, a.Issue(t, []string{"127.0.0.1"}))
		f.WriteCA(t, a)
		return f
	}
	grpc, api, serve, peer := one(), one(), one(), one()
	all := map[string]certtest.Files{"node": grpc, "http": api, "etcd-serve": serve, "etcd-peer": peer}
	cfg := threeConfigs(t)[0]
	cfg.Etcd.Peers = map[string]string{"m0": cfg.Etcd.Peers["m0"]}
	cfg.TLS = mtls.Config{CertFile: grpc.Cert, KeyFile: grpc.Key, CAFile: grpc.CA}
	cfg.HTTPTLS = mtls.Config{CertFile: api.Cert, KeyFile: api.Key, CAFile: api.CA}
	cfg.Etcd.ClientTLS = embedetcd.TLS{CertFile: serve.Cert, KeyFile: serve.Key, CAFile: serve.CA}
	cfg.Etcd.PeerTLS = embedetcd.TLS{CertFile: peer.Cert, KeyFile: peer.Key, CAFile: peer.CA}
	node, log := startLogged(t, cfg)
	web := newTLSClient(t, a)
	page := func() string {
		resp, err := web.Get("https://" + node.HTTPAddress() + "/readyz")
		if err != nil {
			return ""
		}
		defer func() { _ = resp.Body.Close() }()
		return fmt.Sprint(resp.StatusCode == http.StatusOK, resp.TLS.PeerCertificates[0].SerialNumber)
	}
	require.Eventually(t, func() bool { return strings.HasPrefix(page(), "true") }, patience, tick)
	require.Len(t, node.certificateExpiries(), 2*len(all))

	serials := map[string]string{}
	for use, f := range all {
		cert := a.Issue(t, []string{"127.0.0.1"})
		serials[use] = cert.Serial.String()
		f.Write(t, cert)
	}
	node.Reload()
	for use, f := range all {
		// The files are also read every second. Who reads them first logs it, after the new content is in use.
		log.Await(t, fmt.Sprintf("certificates replaced: new connections use them: file=%s serial=%s", f.Cert,
			serials[use]))
	}
	require.Contains(t, log.String(), "certificate and password files were read again on request")
	require.Equal(t, "true"+serials["http"], strings.ReplaceAll(page(), " ", ""))

	for _, f := range all {
		f.WriteCA(t, a, b)
	}
	node.Reload()
	for _, f := range all {
		log.Await(t, "authorities replaced: new connections use them: file="+f.Cert)
	}
	for _, flag := range []string{"--etcd-serve-ca", "--etcd-peer-ca"} {
		kept := "the embedded etcd goes on with the former authorities of " + flag
		log.Await(t, kept)
		require.Equal(t, 1, log.Count(kept), log.String())
	}
	for use, f := range all {
		text, err := os.ReadFile(f.Key)
		require.NoError(t, err)
		certtest.ReplaceFile(t, f.Key, text[:len(text)/2])
		node.Reload()
		require.Contains(t, log.String(), " "+f.Key+": name the PEM file with the private key", use)
		certtest.ReplaceFile(t, f.Key, text)
	}
	require.True(t, strings.HasPrefix(page(), "true"), "and it goes on")
	node.stop()
	require.NoError(t, node.waitStopped(t))
}
