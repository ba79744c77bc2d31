package main

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
	"github.com/goverse/goverse/cmd/goversed/internal/supervise"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/test/certtest"
)

// The error for an expired certificate names its owner. It must not be hidden behind a time-out.
func TestExpiredCertificates(t *testing.T) {
	t.Parallel()
	authority, own := certtest.NewAuthority(t), certtest.NewFiles(t)
	own.WriteCA(t, authority)
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	own.Write(t, authority.Issue(t, []string{"127.0.0.1"}, expired))
	flags := []string{"--etcd", "127.0.0.1:1", "--etcd-cacert", own.CA, "--etcd-cert", own.Cert, "--etcd-key", own.Key}
	says := "--etcd-cert " + own.Cert + ": it expired at "
	requireOneLine(t, runGoversed(t, nil, append(flags, "exec", "--election", "a", "--", "true")...), supervise.ExitFailed,
		says)
	requireOneLine(t, runGoversed(t, nil, append(flags, "status")...), cli.ExitUsage, says)
	r := runGoversed(t, nil, append(flags, "doctor")...)
	require.Equal(t, cli.ExitFailure, r.code)
	require.Regexp(t, `(?m)^problem +certificates +`+says, r.stdout)
}

// The doctor reports when its own certificates, and those of servers, expire.
func TestDoctorSeesCertificates(t *testing.T) {
	t.Parallel()
	authority, server, own := certtest.NewAuthority(t), certtest.NewFiles(t), certtest.NewFiles(t)
	for _, f := range []certtest.Files{server, own} {
		f.WriteCA(t, authority)
	}
	soon := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(20 * time.Minute) }
	server.Write(t, authority.Issue(t, []string{"127.0.0.1"}, soon))
	own.Write(t, authority.Issue(t, nil, soon))
	etcd, err := embedetcd.Start(t.Context(), embedetcd.TestTiming(embedetcd.Config{
		ClientTLS: embedetcd.TLS{CertFile: server.Cert, KeyFile: server.Key, CAFile: server.CA}}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, etcd.Close()) })
	r := runGoversed(t, nil, "doctor", "--etcd", etcd.Endpoint(), "--etcd-cacert", own.CA, "--etcd-cert", own.Cert,
		"--etcd-key", own.Key)
	require.Equal(t, cli.ExitOK, r.code, r.stdout)
	require.Regexp(t, `(?m)^warning +certificates +the certificate of etcd at `+etcd.Endpoint()+` expires in (20|19)m`,
		r.stdout)
	require.Regexp(t, `(?m)^warning +certificates +the certificate of `+own.Cert+` expires in (20|19)m`, r.stdout)
}
