package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/state"
)

// certificateSet collects the certificates that files hold and servers present.
type certificateSet struct {
	mu  sync.Mutex
	all []diagnosis.Certificate
}

func (c *certificateSet) add(one diagnosis.Certificate, err error) {
	if err != nil {
		return // other checks report a server that does not answer
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
}

// presentedCertificate returns the certificate that the server at address presents, even if the handshake fails later.
// Config may have a client certificate.
func presentedCertificate(ctx context.Context, what, address string, config *tls.Config) (out diagnosis.Certificate,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	own := &tls.Config{MinVersion: tls.VersionTLS12}
	if config != nil {
		own = config.Clone()
	}
	err = errors.New("no certificate")
	own.InsecureSkipVerify = true //nolint:gosec // nothing is sent: it is looked at when the certificate expires
	own.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
		var leaf *x509.Certificate
		if leaf, err = x509.ParseCertificate(raw[0]); err == nil {
			out = diagnosis.Certificate{Owner: what + " at " + address, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}
		}
		return err
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: stepTimeout}, Config: own}
	conn, refused := dialer.DialContext(ctx, "tcp", address)
	if refused == nil {
		_ = conn.Close() // nothing was written
	}
	return out, err
}

// addEtcdCertificates collects the certificates of etcd's endpoints.
func (x *examiner) addEtcdCertificates(ctx context.Context, found *certificateSet) {
	config, err := x.Etcd.HandshakeTLS()
	if err != nil {
		return
	}
	all := endpointAddresses(x.Etcd)
	runConcurrently(len(all), func(i int) {
		hostPort, secure := all[i], config != nil
		if scheme, rest, ok := strings.Cut(hostPort, "://"); ok {
			hostPort, secure = strings.TrimSuffix(rest, "/"), scheme == "https"
		}
		if secure {
			found.add(presentedCertificate(ctx, "etcd", hostPort, config))
		}
	})
}

// addNodeCertificates collects the certificates of nodes, if they are called over TLS, and of their status APIs.
func (x *examiner) addNodeCertificates(ctx context.Context, members []*state.Member, found *certificateSet) {
	members = members[:min(len(members), maxNodes)]
	runConcurrently(len(members), func(i int) {
		if len(x.Options) > 0 {
			found.add(presentedCertificate(ctx, "the node", members[i].Address, nil))
		}
		if page, ok := strings.CutPrefix(members[i].HTTPAddress, "https://"); ok {
			host, _, _ := strings.Cut(page, "/")
			found.add(presentedCertificate(ctx, "the status API", host, nil))
		}
	})
}
