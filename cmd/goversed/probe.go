package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

// maxProbeBody limits how much of a refusal's body is shown.
const maxProbeBody = 512

func newProbe() *cobra.Command {
	var timeout time.Duration
	var caCert string
	var self selfFlags
	cmd := &cobra.Command{
		Use:   "probe URL | probe --self [PATH]",
		Short: "Check a URL or the node on this host: exit code 0 if the answer is 2xx",
		Long: `Send one request to URL, and exit with 0 if the status of the answer is 2xx, otherwise with 1. This
is a health check for places without curl, such as an image that has only goversed. probe does not
use the proxies of the environment. It does not follow redirects, so they fail the check.

With --self it asks the node on this host, with the same --http and --http-cert as the node, from
flags, variables or a --config file. It asks /livez, or PATH. The server must show the certificate
in --http-cert; the names in that do not matter. If --http is none, probe only checks that --listen
accepts connections.`,
		Example: `  goversed probe http://127.0.0.1:48001/readyz
  goversed probe --cacert /etc/goverse/ca.pem https://host1:48001/readyz
  goversed probe --self
  goversed probe --self /readyz/reads`,
		Args: func(cmd *cobra.Command, args []string) error {
			if self.self && len(args) == 0 {
				return nil
			}
			return requireArgs("give the address of a page, like http://127.0.0.1:48001/readyz, or --self",
				"one page at a time", "URL")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			probe, err := prepareProbe(self, args, caCert, timeout)
			if err != nil {
				return cli.WrapUsage(cmd.CommandPath(), err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return probe.run(ctx)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	self.register(fs)
	fs.StringVar(&caCert, "cacert", "", "PEM `file` with the certificate authorities of the server "+
		"(default: those of this machine)")
	fs.DurationVar(&timeout, "timeout", 2*time.Second, "longest wait for the answer")
	return cmd
}

// prepareProbe checks the command line and returns the check.
func prepareProbe(self selfFlags, args []string, caCert string, timeout time.Duration) (selfProbe, error) {
	if timeout <= 0 {
		return selfProbe{}, fmt.Errorf("--timeout %v: give more than 0", timeout)
	}
	if self.self {
		return self.newProbe(cmp.Or(strings.Join(args, ""), "/livez"))
	}
	trusted, err := readAuthorities("--cacert", caCert)
	if err != nil {
		return selfProbe{}, err
	}
	return selfProbe{page: args[0], client: newProbeClient(trusted)}, checkPage(args[0])
}

func checkPage(page string) error {
	u, err := url.Parse(page)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("URL %q: write it like http://127.0.0.1:48001/readyz", page)
	}
	return nil
}

// newProbeClient returns a client that makes one request without a proxy, and keeps no connection.
func newProbeClient(trusted *tls.Config) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: trusted}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// readAuthorities returns a client's configuration that trusts the authorities in a file, or nil without a file.
func readAuthorities(flag, file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: name a file that this user may read (%w)", flag, err)
	}
	trusted := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !trusted.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s holds no PEM certificate: name the authority's certificate file", flag, file)
	}
	return trusted, nil
}

// probePage returns nil if the answer is 2xx.
func probePage(ctx context.Context, client *http.Client, page string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
			return fmt.Errorf("%w; give the authority's file with --cacert", err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s did not answer in time; see --timeout", page)
		}
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	if answer.StatusCode/100 == 2 {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxProbeBody)) // only the status matters
	return fmt.Errorf("%s: %s: %s", page, answer.Status, strings.ToValidUTF8(strings.TrimSpace(string(body)), "?"))
}
