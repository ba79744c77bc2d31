package main

import (
	"github.com/spf13/pflag"

	"github.com/goverse/goverse/node/mtls"
)

// nodeTLSFlags holds the flags for TLS between nodes, and to nodes.
type nodeTLSFlags struct{ cert, key, ca string }

func (f *nodeTLSFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.cert, "node-cert", "", "PEM `file` with this process's certificate for gRPC, which then uses mutual "+
		"TLS; read again when it changes")
	fs.StringVar(&f.key, "node-key", "", "PEM `file` with the key of that certificate")
	fs.StringVar(&f.ca, "node-ca", "", "PEM `file` with the certificate authorities of nodes and of their callers")
}

func (f *nodeTLSFlags) tlsConfig() mtls.Config {
	return mtls.Config{CertFile: f.cert, KeyFile: f.key, CAFile: f.ca}
}
