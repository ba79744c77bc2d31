package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goverse/goverse/internal/login"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/internal/zaplog"
)

// ErrEtcdUnreachable: etcd did not answer before the context of Start ended.
var ErrEtcdUnreachable = errors.New("etcd cannot be reached")

// ErrEtcdDenied: etcd answered and refused the user.
var ErrEtcdDenied = errors.New("etcd refused the user")

// ErrNotEtcd: another server answered where etcd should.
var ErrNotEtcd = errors.New("no etcd")

// NewEtcdClient makes a client as a cluster with this configuration makes it:
// for programs that look at a cluster from outside. It does not connect yet.
func NewEtcdClient(cfg Config) (*clientv3.Client, error) {
	cfg = cfg.withDefaults()
	eps, err := endpoints(cfg.EtcdAddress)
	if err != nil {
		return nil, err
	}
	if cfg.Credentials != nil {
		if cfg.Username, cfg.Password, err = cfg.Credentials(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEtcdDenied, err)
		}
	}
	// etcd's client warns of every request that fails, also where failing is an answer, and with a
	// user calls it an error where one was given up; what matters of it is said here.
	var quiet []zap.Option
	if cfg.Logger.IsError() && !cfg.Logger.IsDebug() {
		quiet = append(quiet, zap.IncreaseLevel(zap.DPanicLevel))
	}
	etcd := clientv3.Config{
		Endpoints:   eps,
		TLS:         cfg.TLS,
		Username:    cfg.Username,
		Password:    cfg.Password,
		DialTimeout: cfg.DialTimeout,
		// A connection whose other side vanished is found out and left.
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		Logger:               zaplog.New(cfg.Logger.Named("etcd-client"), quiet...),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			// etcd's return must be noticed within a second.
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: cfg.DialTimeout,
		})},
	}
	client, err := clientv3.New(etcd)
	switch {
	case err == nil:
		login.Attach(client, etcd, cfg.Credentials)
		return client, nil
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrPermissionDenied):
		return nil, fmt.Errorf("%w %q: check the user and password (%w)", ErrEtcdDenied, cfg.Username, err)
	case status.Code(err) == codes.Unimplemented:
		return nil, &notEtcdError{address: cfg.EtcdAddress, cause: err}
	}
	return nil, fmt.Errorf("%w at %s: check the address and that etcd runs there (%w)", ErrEtcdUnreachable,
		cfg.EtcdAddress, err)
}

// connect makes the client, waits until etcd answers, and warns of servers that
// are too old.
func connect(ctx context.Context, cfg Config) (*clientv3.Client, error) {
	if cfg.Client != nil {
		return cfg.Client, awaitEtcd(ctx, cfg, cfg.Client)
	}
	retry := time.Second / 4
	for said := false; ; {
		client, err := NewEtcdClient(cfg) // with a user, it authenticates, and fails without etcd
		if err == nil {
			if err = awaitEtcd(ctx, cfg, client); err != nil {
				_ = client.Close()
			}
			return client, err
		}
		if !errors.Is(err, ErrEtcdUnreachable) {
			return nil, err
		}
		sayUnreachable(ctx, cfg, err, &said)
		if !wait.For(ctx, retry) {
			return nil, err
		}
		// Checking a password costs etcd a good part of a second of its time.
		retry = min(2*retry, 2*time.Second)
	}
}

func awaitEtcd(ctx context.Context, cfg Config, client *clientv3.Client) error {
	keys := cfg.EtcdPrefix
	patience := min(cfg.RequestTimeout, time.Second/2) // to say soon that etcd does not answer
	for said := false; ; patience = cfg.RequestTimeout {
		attempt, cancel := context.WithTimeout(ctx, patience)
		_, err := client.Get(attempt, keys+"/leader-", clientv3.WithRange(keys+"/shards0"), clientv3.WithCountOnly())
		cancel()
		if err == nil {
			break
		}
		if errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrUserEmpty) {
			return denied(cfg, keys+"/leader-", keys+"/shards0", err)
		}
		// Of several addresses another one may be etcd's.
		if err = WhyUnreachable(ctx, cfg, err); errors.Is(err, ErrNotEtcd) && len(client.Endpoints()) == 1 {
			return err
		}
		sayUnreachable(ctx, cfg, err, &said)
		if !wait.For(ctx, 100*time.Millisecond) {
			if len(client.Endpoints()) == 0 {
				return fmt.Errorf("%w through the Client: %w", ErrEtcdUnreachable, err)
			}
			return fmt.Errorf("%w at %s: check the address and that etcd runs there (%w)",
				ErrEtcdUnreachable, strings.Join(client.Endpoints(), ","), err)
		}
	}
	warnOldServers(ctx, cfg, client)
	return nil
}

// denied is the error for a user that may not do what a node does between the keys
// from and to.
func denied(cfg Config, from, to string, err error) error {
	switch {
	case cfg.Client != nil:
		return fmt.Errorf("%w of the Client: grant it READ and WRITE on the range %s to %s (%w)", ErrEtcdDenied, from, to,
			err)
	case cfg.Username == "":
		return fmt.Errorf("%w: there is none; set Username and Password to those of a user with READ and WRITE on the "+
			"range %s to %s (%w)",
			ErrEtcdDenied, from, to, err)
	}
	return fmt.Errorf("%w %q: grant it READ and WRITE on the range %s to %s (%w)", ErrEtcdDenied, cfg.Username, from, to,
		err)
}

// sayUnreachable says it once, and for how long it is tried if ctx has a deadline.
func sayUnreachable(ctx context.Context, cfg Config, err error, said *bool) {
	if *said {
		return
	}
	*said = true
	about := []any{"etcd", cfg.EtcdAddress}
	if deadline, ok := ctx.Deadline(); ok {
		about = append(about, "at_most", time.Until(deadline).Round(time.Second/10).String())
	}
	cfg.Logger.Warn("etcd does not answer, trying on", append(about, "error", err)...)
}

// warnOldServers says which servers can revoke a lease although it was renewed (etcd's issue 15247): those
// before 3.4.31 and 3.5.13 easily, and of several members later ones, too. P1 does not hold then.
func warnOldServers(ctx context.Context, cfg Config, client *clientv3.Client) {
	newest := ""
	for _, endpoint := range client.Endpoints() {
		attempt, cancel := context.WithTimeout(ctx, cfg.RequestTimeout)
		status, err := client.Status(attempt, endpoint)
		cancel()
		if err != nil {
			continue // another one answered, or nothing would have come so far
		}
		newest = max(newest, status.Version)
		if tooOld(status.Version) {
			cfg.Logger.Warn("this etcd can revoke leases that were renewed, so that two nodes may lead for a moment: upgrade "+
				"to 3.4.31, 3.5.13 or later",
				"endpoint", endpoint, "version", status.Version)
			return
		}
	}
	if client.Cluster == nil {
		return // a client that was put together of parts
	}
	attempt, cancel := context.WithTimeout(ctx, cfg.RequestTimeout)
	defer cancel()
	if members, err := client.MemberList(attempt); err == nil && len(members.Members) > 1 {
		cfg.Logger.Info("a leader of this etcd that stood still for most of a TTL can revoke leases that were renewed: "+
			"guard writes with tokens",
			"version", newest, "members", len(members.Members))
	}
}

func tooOld(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	switch {
	case v.Major < 3, v.Major == 3 && v.Minor < 4:
		return true
	case v.Major == 3 && v.Minor == 4:
		return v.LessThan(semver.Version{Major: 3, Minor: 4, Patch: 31})
	case v.Major == 3 && v.Minor == 5:
		return v.LessThan(semver.Version{Major: 3, Minor: 5, Patch: 13})
	}
	return false
}
