package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
)

// lasting is an error that stays however often it is tried.
type lasting struct{ error }

// Unwrap is the error itself.
func (l lasting) Unwrap() error { return l.error }

func lasts(err error) bool {
	_, ok := errors.AsType[lasting](err)
	return ok
}

// connect makes a client; with a user, etcd answers for that. Errors are lasting unless etcd may
// come yet.
func connect(etcd cluster.Config) (*clientv3.Client, error) {
	client, err := cluster.NewEtcdClient(etcd)
	switch {
	case err == nil, errors.Is(err, cluster.ErrEtcdUnreachable):
		return client, err
	case errors.Is(err, cluster.ErrEtcdDenied):
		err = fmt.Errorf("%w; they are --etcd-user (GOVERSE_ETCD_USER) and --etcd-password (GOVERSE_ETCD_PASSWORD)", err)
	}
	return nil, lasting{err}
}

// why looks for the reason for which etcd does not answer: at its first address, or if that one's
// lasts, at the first one of which it may pass.
func why(ctx context.Context, etcd cluster.Config, err error) error {
	var last error
	for address := range strings.SplitSeq(etcd.EtcdAddress, ",") {
		one := etcd
		one.EtcdAddress = address
		reason := cluster.WhyUnreachable(ctx, one, err)
		switch {
		case errors.Is(reason, cluster.ErrNotEtcd):
			last = lasting{reason}
		case badCertificate(reason):
			last = lasting{fmt.Errorf("etcd at %s: %w; they are --etcd-cacert, --etcd-cert and --etcd-key", address, reason)}
		default:
			return fmt.Errorf("at %s: %w", address, reason)
		}
	}
	return last
}

// badCertificate reports whether one side refuses the other one's certificate.
func badCertificate(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" // an alert of TLS
}
