package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/node"
)

// Errors to test for with errors.Is, besides those of cluster.Start, node.NewNode and embedetcd.Start.
var (
	// ErrHTTPAddress is returned when the HTTP address is malformed or cannot be bound.
	ErrHTTPAddress = errors.New("bad http address")
	// ErrStopCut is returned when the stop was cut short, by the time-out or on request.
	ErrStopCut = errors.New("the stop is incomplete, what is left in etcd ends with the session's lease")
	// ErrStartTimeout is returned when the node did not join the cluster in time.
	ErrStartTimeout = errors.New("the start took too long; see the log for what it waited for, or raise --start-timeout")
)

var errEnded = errors.New("a part of this node ended by itself; see the log, then start it again")

// flagError replaces the text of an error. The packages below name their configuration fields, and quote one
// another's errors; an operator needs the names of flags.
type flagError struct {
	text  string
	cause error
}

// Error returns the text alone.
func (e *flagError) Error() string { return e.text }

// Unwrap returns the error of the package below.
func (e *flagError) Unwrap() error { return e.cause }

func newFlagError(cause error, format string, args ...any) error {
	return &flagError{text: fmt.Sprintf(format, args...), cause: cause}
}

func listenError(address string, err error) error {
	if errors.Is(err, node.ErrAddressInUse) {
		return portInUseError("--listen", address, err)
	}
	return bindError("--listen", address, err)
}

func httpError(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return portInUseError("--http", address, errors.Join(ErrHTTPAddress, err))
	}
	return bindError("--http", address, errors.Join(ErrHTTPAddress, err))
}

// portInUseError does not claim that a process listens on the port, because an outgoing connection of this machine can
// occupy it, too.
func portInUseError(flag, address string, err error) error {
	return newFlagError(err,
		"%s %s is in use: stop the process that uses it (ss -tanp shows it), or give another address; "+
			"if none listens there, a connection out of this machine had that port, and it is free within a minute", flag,
		address)
}

func bindError(flag, address string, err error) error {
	why := ""
	if op, ok := errors.AsType[*net.OpError](err); ok {
		why = fmt.Sprintf(" (%v)", op.Err)
	}
	return newFlagError(err, "%s %s: give an address and a port that this machine may bind%s", flag, address, why)
}

func etcdError(cfg embedetcd.Config, err error) error {
	if err, ok := memberError(cfg, err); ok {
		return err
	}
	switch {
	case errors.Is(err, ErrStartTimeout):
		return newFlagError(err, "the embedded etcd did not serve: %v", ErrStartTimeout)
	case errors.Is(err, embedetcd.ErrAddressInUse) && len(cfg.Peers) > 0:
		return newFlagError(err,
			"--etcd-listen %s or the peer address %s is in use: stop the process that uses it (ss -tanp "+
				"shows it), or give another address", cfg.ListenClient, peerListenAddress(cfg))
	case errors.Is(err, embedetcd.ErrAddressInUse):
		return newFlagError(err, "--etcd-listen %s is in use: join the etcd that runs there with --etcd %[1]s, or stop the "+
			"process that uses it (ss -tanp shows it), or give another address",
			cfg.ListenClient)
	case errors.Is(err, embedetcd.ErrConfig):
		return bindError("--etcd-listen", cfg.ListenClient, err)
	case errors.Is(err, embedetcd.ErrDamaged):
		why := ""
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			why = fmt.Sprintf(" (%s: %v)", path.Path, path.Err)
		}
		return newFlagError(err, "--data-dir %s: the embedded etcd's data is damaged%s: restore a backup, or move the "+
			"directory away and start with an empty one",
			cfg.DataDir, why)
	case errors.Is(err, embedetcd.ErrDataDirInUse):
		return newFlagError(err, "--data-dir %s is used by another running server: give another directory, or join that "+
			"server with --etcd", cfg.DataDir)
	case errors.Is(err, embedetcd.ErrDataDir):
		why := ""
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			why = fmt.Sprintf(" (%v)", path)
		}
		return newFlagError(err, "--data-dir %s cannot be used: give a directory that this user may create, read and write%s",
			cfg.DataDir, why)
	}
	return fmt.Errorf("embedded etcd: %w", err)
}

// memberError rewrites an error that keeps a member of etcd from its cluster. It reports whether err is one.
func memberError(cfg embedetcd.Config, err error) (error, bool) {
	if wrong, ok := errors.AsType[*embedetcd.FileError](err); ok {
		part, field, _ := strings.Cut(wrong.Field, ".")
		flags := map[string]map[string]string{"ClientTLS": serveFlags, "PeerTLS": peerFlags}[part]
		return newFlagError(err, "%s %s: %v", flags[field], wrong.File, wrong.Err), true
	}
	if other, ok := errors.AsType[*embedetcd.DisagreeError](err); ok {
		return newFlagError(err, "--etcd-cluster differs: member %s has %s, and this one %s: give all members "+
			"the same", other.Member, other.Theirs, other.Ours), true
	}
	replace := fmt.Sprintf("goversed etcd replace %s --etcd ADDRESS, with the client address of another member", cfg.Name)
	scheme := "http"
	if cfg.PeerTLS.CertFile != "" {
		scheme = "https"
	}
	add := fmt.Sprintf("etcdctl member add %s --learner --peer-urls=%s://%s, and later etcdctl member promote", cfg.Name,
		scheme, cfg.Peers[cfg.Name])
	switch {
	case errors.Is(err, embedetcd.ErrPeerAddress):
		return newFlagError(err, "--etcd-cluster has %s for %s, and --data-dir %s is of a member with another peer address: "+
			"give the one that goversed etcd members shows, or another directory", cfg.Peers[cfg.Name], cfg.Name,
			cfg.DataDir), true
	case errors.Is(err, embedetcd.ErrMemberLost):
		return newFlagError(err, "--data-dir %s is empty, and the other members of etcd know %s: its data is lost; put it "+
			"back, or replace the member by %s; this process then joins by itself", cfg.DataDir, cfg.Name, replace), true
	case errors.Is(err, embedetcd.ErrRemoved):
		return newFlagError(err, "--data-dir %s is of a member that was removed from etcd's cluster: move that directory "+
			"away; then, unless one was added in its place, %s; this process then joins by itself", cfg.DataDir, add), true
	case errors.Is(err, embedetcd.ErrNotMember):
		return newFlagError(err, "the other members of etcd do not know %s at %s: correct --etcd-cluster, or add it (%s); "+
			"this process then joins by itself", cfg.Name, cfg.Peers[cfg.Name], add), true
	}
	return err, false
}

func peerListenAddress(cfg embedetcd.Config) string {
	if cfg.ListenPeer != "" {
		return cfg.ListenPeer
	}
	return cfg.Peers[cfg.Name]
}

func joinError(cfg Config, err error) error {
	switch {
	case errors.Is(err, node.ErrAddressInUse), errors.Is(err, node.ErrBadAddress): // bindable in New, but no longer
		return listenError(cfg.Listen, err)
	case errors.Is(err, cluster.ErrEtcdUnreachable) && !connect.IsPermanent(err): // otherwise it would still be retrying
		return fmt.Errorf("%w; --start-timeout 0 waits forever", err)
	}
	if wrong, ok := errors.AsType[*cluster.ShardCountError](err); ok {
		return newFlagError(err, "--shards %d is not this cluster's number, which is %d and fixed: give --shards %[2]d, or "+
			"--sharding off", wrong.Own, wrong.Cluster)
	}
	return err
}
