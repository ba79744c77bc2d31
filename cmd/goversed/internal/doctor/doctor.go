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
	// stepTimeout bounds one question.
	stepTimeout = 2 * time.Second
	// loginTimeout bounds the last log-in, after which etcd is known to answer: a busy one takes long to check a
	// password.
	loginTimeout = 5 * time.Second
)

// Config says what to look at. All but Options and HTTP are required.
type Config struct {
	// Etcd is how etcd is reached.
	Etcd connect.Config
	// Keys are those of the cluster.
	Keys state.Keys
	// TTL is the one that nodes have.
	TTL time.Duration
	// Program is whose rights are tried.
	Program access.Program
	// Timeout bounds it all, apart from the revocation of leases, which has two seconds.
	Timeout time.Duration
	// Options are those with which nodes are called.
	Options []grpc.DialOption
	// HTTP is how their status is asked for over HTTPS; nil: as this machine trusts.
	HTTP *tls.Config
	// Certificates are those of the doctor's own files.
	Certificates []diagnosis.Certificate
}

// examiner carries an examination out.
type examiner struct{ Config }

// Examine looks at etcd and the cluster. It blocks for Timeout at most, and less if ctx ends; then what it has not
// seen is missing in the facts.
func Examine(ctx context.Context, cfg Config) (f diagnosis.Facts) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	x := &examiner{cfg}
	f = diagnosis.Facts{Prefix: cfg.Keys.Prefix(), User: cfg.Etcd.Username, TTL: cfg.TTL}
	seen := &certificates{all: slices.Clone(cfg.Certificates)}
	var looking sync.WaitGroup
	looking.Go(func() { x.ofEtcd(ctx, seen) })
	defer func() {
		looking.Wait()
		slices.SortFunc(seen.all, func(a, b diagnosis.Certificate) int { return strings.Compare(a.Of, b.Of) })
		f.Certificates, f.Now = seen.all, time.Now()
	}()
	f.Endpoints, f.Members = x.endpoints(ctx)
	var serving []string
	for i, address := range addresses(cfg.Etcd) {
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
		f.Unread = why(err)
		return f
	}
	defer func() { _ = client.Close() }() // what was written is revoked
	x.cluster(ctx, client, &f, seen)
	return f
}

// cluster looks at what lies in etcd, and at the nodes.
func (x *examiner) cluster(ctx context.Context, client *clientv3.Client, f *diagnosis.Facts, seen *certificates) {
	var wg sync.WaitGroup
	wg.Go(func() {
		f.Access = x.access(ctx, client)
		if mayWrite(f.Access, x.Keys.DoctorKeys()) {
			f.Round = x.round(ctx, client)
		}
	})
	wg.Go(func() { f.Others = x.others(ctx, client) })
	wg.Go(func() {
		var err error
		if f.State, err = x.state(ctx, client); err != nil {
			if !connect.Refuses(err) {
				f.Unread = why(err)
			}
			return
		}
		var inner sync.WaitGroup
		inner.Go(func() { f.Nodes, f.NodesLeft = x.nodes(ctx, f.State.Snapshot.Members) })
		inner.Go(func() { x.ofNodes(ctx, f.State.Snapshot.Members, seen) })
		inner.Go(func() { f.Leases = x.leases(ctx, client, f.State.KVs) })
		inner.Wait()
	})
	wg.Wait()
}

// state reads the cluster's range as a node does.
func (x *examiner) state(ctx context.Context, client *clientv3.Client) (*diagnosis.State, error) {
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
		Snapshot: state.Build(x.Keys, resp.Header.ClusterId, resp.Header.Revision, kvs)}, nil
}

// addresses are the endpoints, each so that it is reached alone as it is among the others, where the first one
// decides whether all speak TLS.
func addresses(cfg connect.Config) []string {
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

// why is err for a finding: without what etcd's client puts around it.
func why(err error) string {
	if says, _, ok := connect.Parts(err); ok {
		return says
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within the time-out"
	}
	return logtext.OneLine(err)
}
