package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
	"github.com/goverse/goverse/internal/etcd/access"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/logs/logtext"
	"github.com/goverse/goverse/internal/state"
)

const (
	// stepTimeout limits one request.
	stepTimeout = 2 * time.Second
	// loginTimeout limits the last log-in, at an etcd that has answered before. A busy etcd needs long to check
	// a password.
	loginTimeout = 5 * time.Second
)

// Config configures Examine. All but Options, HTTP and Certificates are required.
type Config struct {
	// Etcd configures the connection to etcd.
	Etcd connect.Config
	// Keys are the keys of the cluster.
	Keys state.Keys
	// TTL is the session TTL that the nodes use.
	TTL time.Duration
	// Program is the program for which the user's rights are tested.
	Program access.Program
	// Timeout limits the examination, except for the revocation of leases, which may take two more seconds.
	Timeout time.Duration
	// Options are the options with which nodes are called.
	Options []grpc.DialOption
	// HTTP is the TLS configuration for status APIs over HTTPS. Nil means the authorities that this machine
	// trusts.
	HTTP *tls.Config
	// Certificates are the certificates in the doctor's own files.
	Certificates []diagnosis.Certificate
}

type examiner struct{ Config }

// Examine examines etcd and the cluster. It blocks for at most Timeout, or until ctx ends. The facts lack
// everything that it could not see by then.
func Examine(ctx context.Context, cfg Config) (f diagnosis.Facts) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	x := &examiner{cfg}
	f = diagnosis.Facts{Prefix: cfg.Keys.Prefix(), User: cfg.Etcd.Username, TTL: cfg.TTL}
	seen := &certificateSet{all: slices.Clone(cfg.Certificates)}
	var looking sync.WaitGroup
	looking.Go(func() { x.addEtcdCertificates(ctx, seen) })
	defer func() {
		looking.Wait()
		slices.SortFunc(seen.all, func(a, b diagnosis.Certificate) int { return strings.Compare(a.Owner, b.Owner) })
		f.Certificates, f.Now = seen.all, time.Now()
	}()
	f.Endpoints, f.Members = x.examineEndpoints(ctx)
	var serving []string
	for i, address := range endpointAddresses(cfg.Etcd) {
		if len(f.Endpoints[i].Reads) > 0 {
			serving = append(serving, address)
		}
	}
	if len(serving) == 0 {
		f.Unread = "etcd answers no reads"
		return f
	}
	through := cfg.Etcd
	through.Address, through.DialTimeout = strings.Join(serving, ","), loginTimeout
	client, err := through.Connect(ctx)
	if err != nil {
		f.Unread = findingText(err)
		return f
	}
	defer func() { _ = client.Close() }() // everything written is revoked
	x.examineCluster(ctx, client, &f, seen)
	return f
}

// examineCluster examines the keys in etcd, and the nodes.
func (x *examiner) examineCluster(ctx context.Context, client *clientv3.Client, f *diagnosis.Facts,
	seen *certificateSet) {
	var wg sync.WaitGroup
	wg.Go(func() {
		f.Access = x.testAccess(ctx, client)
		if mayWrite(f.Access, x.Keys.DoctorKeys()) {
			f.KeyTest = x.testOwnKey(ctx, client)
		}
	})
	wg.Go(func() { f.OtherClusters = x.findOthers(ctx, client) })
	wg.Go(func() {
		var err error
		if f.State, err = x.readState(ctx, client); err != nil {
			if !connect.LacksPermission(err) {
				f.Unread = findingText(err)
			}
			return
		}
		var inner sync.WaitGroup
		inner.Go(func() { f.Nodes, f.NodesLeft = x.askNodes(ctx, f.State.Snapshot.MembersWithServer()) })
		inner.Go(func() { x.addNodeCertificates(ctx, f.State.Snapshot.MembersWithServer(), seen) })
		inner.Go(func() { f.Leases = x.readLeases(ctx, client, f.State.KVs) })
		inner.Wait()
	})
	wg.Wait()
}

// readState reads the cluster's range, like a node.
func (x *examiner) readState(ctx context.Context, client *clientv3.Client) (*diagnosis.State, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*stepTimeout)
	defer cancel()
	resp, err := client.Get(clientv3.WithRequireLeader(ctx), x.Keys.RangeStart(), clientv3.WithRange(x.Keys.RangeEnd()))
	if err != nil {
		return nil, err
	}
	kvs := make([]state.KV, 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		kvs = append(kvs, state.KV{Key: string(kv.Key), Value: kv.Value, CreateRevision: kv.CreateRevision,
			ModRevision: kv.ModRevision, Lease: kv.Lease})
	}
	return &diagnosis.State{KVs: kvs,
		Snapshot: state.BuildSnapshot(x.Keys, resp.Header.ClusterId, resp.Header.Revision, kvs)}, nil
}

// endpointAddresses returns the endpoints. Each has the scheme it would have among the others, because the first one
// determines whether all use TLS.
func endpointAddresses(cfg connect.Config) []string {
	var out []string
	for address := range strings.SplitSeq(cfg.Address, ",") {
		if address = strings.TrimSpace(address); address != "" {
			out = append(out, address)
		}
	}
	for i, address := range out {
		if i > 0 && !strings.Contains(address, "://") {
			if scheme, _, ok := strings.Cut(out[0], "://"); ok {
				out[i] = scheme + "://" + address
			}
		}
	}
	return out
}

// findingText returns the text of err for a finding, without the text that etcd's client adds.
func findingText(err error) string {
	if says, _, ok := connect.DescribeError(err); ok {
		return says
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within the time-out"
	}
	return logtext.OneLine(err)
}
