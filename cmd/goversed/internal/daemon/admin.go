package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/goverse/goverse/cluster/httpapi"
)

// Admin configures which clients may make admin calls over HTTP.
type Admin struct {
	// TokenFile names a file of bearer tokens, one per line. It is read again at each call that presents a
	// token.
	TokenFile string
	// Token is a single bearer token. It excludes TokenFile.
	Token string
	// Clients lists the common names or DNS names of the client certificates that are accepted. If it is empty,
	// every certificate signed by an authority in the CAFile of Config.HTTPTLS is accepted.
	Clients []string
}

// AdminTokenVariable names the environment variable from which goversed takes Admin.Token. There is no flag for it,
// because process lists show flags.
const AdminTokenVariable = "GOVERSE_ADMIN_TOKEN"

// hasAdmin reports whether any client may make admin calls.
func (c Config) hasAdmin() bool {
	return c.Admin.TokenFile != "" || c.Admin.Token != "" || c.HTTPTLS.CAFile != ""
}

// validateHTTP checks what can be checked without reading the files.
func (c Config) validateHTTP() error {
	tls := c.HTTPTLS
	switch {
	case (tls.CertFile == "") != (tls.KeyFile == ""):
		return errors.New("--http-cert and --http-key belong together: give both")
	case tls.CAFile != "" && tls.CertFile == "":
		return errors.New("--http-client-ca needs --http-cert and --http-key: a client shows its certificate over TLS only")
	case len(c.Admin.Clients) > 0 && tls.CAFile == "":
		return errors.New("--admin-client needs --http-client-ca: name the authorities that sign its certificate")
	case c.Admin.TokenFile != "" && c.Admin.Token != "":
		return fmt.Errorf("--admin-token-file and %s are both given: give one of them", AdminTokenVariable)
	case c.HTTP == "" && (tls.CertFile != "" || c.hasAdmin()):
		return errors.New("--http is none, and there are certificates or tokens for it: leave them out, or give --http an " +
			"address")
	case c.Admin.Token != "" && len(c.Admin.Token) < httpapi.MinToken:
		return fmt.Errorf("%s has %d bytes: give %d at least; openssl rand -hex 32 makes a good one", AdminTokenVariable,
			len(c.Admin.Token), httpapi.MinToken)
	}
	return nil
}

// adminConfig returns the configuration of admin calls, nil if they are off. It reads the file of tokens once, so
// that an unusable file is noticed at the start.
func (d *Daemon) adminConfig() (*httpapi.Admin, error) {
	if !d.cfg.hasAdmin() {
		return nil, nil
	}
	var all []httpapi.Authorizer
	if file := d.cfg.Admin.TokenFile; file != "" {
		if _, err := readTokens(file); err != nil {
			return nil, err
		}
		all = append(all, httpapi.BearerTokens(func() (map[string]string, error) { return readTokens(file) }))
	}
	if token := d.cfg.Admin.Token; token != "" {
		all = append(all, httpapi.BearerToken(AdminTokenVariable, token))
	}
	if len(all) > 0 && d.httpCerts == nil && !isLoopbackListener(d.http) {
		d.log.Warn("admin tokens travel in plain text: give --http-cert and --http-key, or have --http listen on this "+
			"machine alone", "http", d.http.Addr())
	}
	if d.cfg.HTTPTLS.CAFile != "" {
		all = append(all, httpapi.ClientCertificate(d.cfg.Admin.Clients...))
	}
	return &httpapi.Admin{Authorize: httpapi.AnyOf(all...), Logger: d.log.Named("http")}, nil
}

// readTokens returns the tokens in a file, keyed by their names in the log. Its errors contain no token.
func readTokens(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--admin-token-file: name a file that this user may read (%w)", err)
	}
	tokens, number := map[string]string{}, 0
	for line := range strings.Lines(string(text)) {
		number++
		token := strings.TrimSpace(line)
		switch {
		case token == "":
			continue
		case len(token) < httpapi.MinToken:
			return nil, fmt.Errorf("--admin-token-file %s: the token in line %d has %d bytes: give %d at least; openssl rand "+
				"-hex 32 makes a good one", file, number, len(token), httpapi.MinToken)
		}
		tokens[fmt.Sprintf("of line %d", number)] = token
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("--admin-token-file %s: it has no token: write one a line", file)
	}
	return tokens, nil
}

// isLoopbackListener reports whether the listener is only reachable from this machine.
func isLoopbackListener(l net.Listener) bool {
	address, ok := l.Addr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}
