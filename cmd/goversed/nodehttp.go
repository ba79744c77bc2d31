package main

import (
	"github.com/spf13/pflag"

	"github.com/goverse/goverse/cmd/goversed/internal/daemon"
	"github.com/goverse/goverse/node/mtls"
)

// nodeHTTPFlags holds the flags for the status API's TLS and for the clients that may make admin calls.
type nodeHTTPFlags struct {
	cert, key, clientCA string
	tokenFile           string
	clients             []string
}

func (f *nodeHTTPFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.cert, "http-cert", "", "PEM `file` with the certificate of the status API, which then uses HTTPS; "+
		"read again when it changes")
	fs.StringVar(&f.key, "http-key", "", "PEM `file` with the key of that certificate")
	fs.StringVar(&f.clientCA, "http-client-ca", "", "PEM `file` with the certificate authorities of clients that may "+
		"make admin calls over HTTPS")
	fs.StringSliceVar(&f.clients, "admin-client", nil, "`name` in the certificate of a client that may make admin "+
		"calls; can be repeated (default: every certificate of --http-client-ca)")
	fs.StringVar(&f.tokenFile, "admin-token-file", "", "`file` with the bearer tokens that authorize admin calls, one "+
		"per line; read again at each call; or put a single token into "+daemon.AdminTokenVariable)
}

func (f *nodeHTTPFlags) tlsConfig() mtls.Config {
	return mtls.Config{CertFile: f.cert, KeyFile: f.key, CAFile: f.clientCA}
}

func (f *nodeHTTPFlags) adminConfig(env func(string) (string, bool)) daemon.Admin {
	token, _ := env(daemon.AdminTokenVariable)
	return daemon.Admin{TokenFile: f.tokenFile, Token: token, Clients: f.clients}
}
