// Package reach says why etcd does not answer goversed, in one line that names its flags, and
// whether it may answer yet.
//
// Not promised: that an error which does not last passes. Etcd that is slow, away or cut off is
// told from what can never be etcd; the rest only time tells.
package reach

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

// Lasts reports whether an error of Connect or Why stays however often it is tried.
func Lasts(err error) bool {
	_, ok := errors.AsType[lasting](err)
	return ok
}

// Connect makes a client as cluster.NewEtcdClient does; with a user, etcd answers for that. Errors
// match those of NewEtcdClient, and last unless they match cluster.ErrEtcdUnreachable.
func Connect(etcd cluster.Config) (*clientv3.Client, error) {
	client, err := cluster.NewEtcdClient(etcd)
	switch {
	case err == nil, errors.Is(err, cluster.ErrEtcdUnreachable):
		return client, err
	case errors.Is(err, cluster.ErrEtcdDenied):
		err = fmt.Errorf("%w; they are --etcd-user (GOVERSE_ETCD_USER) and --etcd-password (GOVERSE_ETCD_PASSWORD)", err)
	case errors.Is(err, cluster.ErrNotEtcd):
		err = NotEtcd(etcd.EtcdAddress)
	}
	return nil, lasting{err}
}

// NotEtcd is the error where another server answers at address; it matches cluster.ErrNotEtcd.
func NotEtcd(address string) error {
	return fmt.Errorf("what answers at %s is %w: give etcd's client address with --etcd, usually port 2379", address,
		cluster.ErrNotEtcd)
}

// Why looks for the reason for err, with which a request to etcd failed, as
// cluster.WhyUnreachable does at one address: at the first one of which the reason may pass, and
// if there is none at the last. A reason that lasts names the address, and matches
// cluster.ErrNotEtcd if that is it.
func Why(ctx context.Context, etcd cluster.Config, err error) (address string, reason error) {
	for address = range strings.SplitSeq(etcd.EtcdAddress, ",") {
		one := etcd
		one.EtcdAddress = address
		found := cluster.WhyUnreachable(ctx, one, err)
		switch {
		case errors.Is(found, cluster.ErrNotEtcd):
			reason = lasting{NotEtcd(address)}
		case badCertificate(found):
			reason = lasting{fmt.Errorf("etcd at %s: %w; they are --etcd-cacert, --etcd-cert and --etcd-key", address, found)}
		default:
			return address, found
		}
	}
	return address, reason
}

// badCertificate reports whether one side refuses the other one's certificate.
func badCertificate(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" // an alert of TLS
}
