package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// selfFlags holds the settings of the node on this host that goversed probe --self follows.
type selfFlags struct {
	self               bool
	http, cert, listen string
}

func (f *selfFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.self, "self", false, "check the node on this host, at /livez or PATH")
	fs.StringVar(&f.http, "http", "127.0.0.1:48001", "with --self: the `host:port` of the node's status API, or \"none\"")
	fs.StringVar(&f.cert, "http-cert", "", "with --self: PEM `file` with the certificate of the node's status API")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:47001", "with --self and --http none: the `host:port` of the node's gRPC")
}

var (
	errNotOwnCertificate = errors.New("another certificate than that of --http-cert is shown")
	errNoCertificate     = errors.New("it holds no PEM certificate")
)

// selfProbe is a check of the node on this host.
type selfProbe struct {
	page    string // "" without a status API
	address string // of gRPC, for a node without a status API
	client  *http.Client
}

// newProbe checks the settings and returns the check of a path. It reads the certificate anew for each check, as the
// node does when the file changes.
func (f *selfFlags) newProbe(path string) (selfProbe, error) {
	if !strings.HasPrefix(path, "/") {
		return selfProbe{}, fmt.Errorf("PATH %q: with --self it is a path like /livez or /readyz", path)
	}
	if f.http == "none" {
		address, err := loopbackOf("--listen", f.listen)
		return selfProbe{address: address}, err
	}
	address, err := loopbackOf("--http", f.http)
	if err != nil {
		return selfProbe{}, err
	}
	if f.cert == "" {
		return selfProbe{page: "http://" + address + path, client: newProbeClient(nil)}, nil
	}
	own, err := readCertificate(f.cert)
	if err != nil {
		return selfProbe{}, fmt.Errorf("--http-cert %s: name the file that the node has (%w)", f.cert, err)
	}
	// The certificate need not name this address. It is the node's own, which no other server can show.
	return selfProbe{page: "https://" + address + path, client: newProbeClient(&tls.Config{MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, own) {
				return errNotOwnCertificate
			}
			return nil
		}})}, nil
}

// run returns nil if the node is as asked for. Without a status API it only sees whether gRPC takes connections.
func (p selfProbe) run(ctx context.Context) error {
	if p.page != "" {
		return probePage(ctx, p.client, p.page)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// loopbackOf returns the address at which this host reaches a server that listens at the flag's address.
func loopbackOf(flag, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !isPort(port) {
		return "", fmt.Errorf("%s %s: write it as the node has it, like 127.0.0.1:48001", flag, address)
	}
	if port == "0" {
		return "", fmt.Errorf("%s %s: the node draws a port at each start; give both a fixed one", flag, address)
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "", err == nil && ip.Is4() && ip.IsUnspecified():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}

// readCertificate returns the first certificate of a PEM file.
func readCertificate(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return block.Bytes, nil
		}
	}
	return nil, errNoCertificate
}
