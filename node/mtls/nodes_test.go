package mtls_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/clustertest/fault/etcdfault"
	"github.com/goverse/goverse/internal/peer"
	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/probepb"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// leaseTTL exceeds the waits of all tests, so a node that is removed earlier was removed on evidence.
const leaseTTL = 120

// member is a node of a cluster over TLS.
type member struct {
	*cluster.Cluster
	node   *node.Node
	files  certtest.Files
	certs  *mtls.Certificates
	faults *etcdfault.Faults
	log    *logtest.Buffer
	killed bool
}

// join starts a member with probe objects.
func join(t *testing.T, etcd *etcdtest.Server, w *probepb.World, f certtest.Files) *member {
	t.Helper()
	m := &member{files: f, log: &logtest.Buffer{}, certs: load(t, config(f))}
	etcdClient := etcdtest.Dial(t, etcd.Endpoint())
	m.faults = etcdfault.Inject(etcdClient)
	var err error
	m.node, err = node.NewNode(node.Config{ListenAddress: "127.0.0.1:0",
		ServerOptions: []grpc.ServerOption{m.certs.ServerOption()}})
	require.NoError(t, err)
	cfg := cluster.Config{Client: etcdClient, LeaderElectionTTL: leaseTTL, Logger: m.log.Logger(),
		CrashDetection: cluster.CrashDetection{SilenceTimeout: -1},
		DialOptions:    []grpc.DialOption{m.certs.DialOption()}}
	cfg.Sharding.Shards, cfg.Sharding.Window, cfg.Sharding.MinMembers = 64, 20*time.Millisecond, 3
	m.Cluster, err = cluster.NewClusterWithNode(cfg, m.node)
	require.NoError(t, err)
	w.Register(m.Cluster, m.address())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if m.killed {
			cancel()
		}
		if err := m.Stop(ctx); !m.killed {
			require.NoError(t, err)
		}
	})
	require.NoError(t, m.Start(patient(t)))
	return m
}

func (m *member) address() string { return m.node.AdvertiseAddress() }

// kill makes the member vanish as in a crash.
func (m *member) kill() {
	m.killed = true
	m.faults.CutOff()
	_ = m.node.Close() // always nil
}

func three(t *testing.T, a *certtest.Authority) (*etcdtest.Server, *probepb.World, []*member) {
	t.Helper()
	etcd, w := etcdtest.Start(t), &probepb.World{}
	var all []*member
	for range 3 {
		f, _ := files(t, a, "127.0.0.1")
		all = append(all, join(t, etcd, w, f))
	}
	return etcd, w, all
}

// add calls one object, through the member or from outside through conn.
func add(ctx context.Context, from grpc.ClientConnInterface) (*probepb.AddResponse, error) {
	return probepb.NewProbeClient(from).Add(ctx, &probepb.AddRequest{Amount: 1})
}

// callAll calls many objects from every member, and returns the nodes that served them.
func callAll(t *testing.T, members []*member) map[string]bool {
	t.Helper()
	served := map[string]bool{}
	for i := range 40 {
		for _, m := range members {
			reply, err := add(patient(t), m.Objects().At(fmt.Sprint("key", i)))
			require.NoError(t, err)
			served[reply.GetNode()] = true
		}
	}
	return served
}

func TestACrashIsNoticedAndObjectsAreCalledOverTLS(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	_, _, all := three(t, a)
	require.Len(t, callAll(t, all), 3)
	require.Eventually(t, func() bool {
		for _, m := range all {
			if (*peer.Node)(m.node).Watchers() != 2 {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond, "each watches the two others")

	victim, left := all[0], all[1:]
	began := time.Now()
	victim.kill()
	for _, m := range left {
		require.Eventually(t, func() bool { return len(m.Members()) == 2 && m.GetLeaderNode() == all[1].address() },
			30*time.Second, time.Millisecond)
	}
	require.Len(t, callAll(t, left), 2)
	t.Log("another one leads, and serves the objects, after", time.Since(began))
	for _, m := range left {
		require.NotContains(t, m.log.String(), "cannot watch a member")
	}
}

// methods lists methods of every service of a node.
var methods = []string{
	"/goverse.node.v1.Node/Identify", "/goverse.node.v1.Node/Watch",
	"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/List",
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	"/goverse.objects.v1.Objects/Link", "/goverse.objects.v1.Objects/WatchRoutes", "/goverse.objects.v1.Objects/Describe",
	probepb.Probe_Add_FullMethodName, probepb.Probe_Chat_FullMethodName,
}

// ask calls a method with an empty message. It returns nil if the server responds, and otherwise the error.
func ask(ctx context.Context, conn *grpc.ClientConn, method string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, "key")
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
		return stream.RecvMsg(&emptypb.Empty{}) // returns the reason
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(&emptypb.Empty{})
}

func TestStrangersAreAnsweredNothing(t *testing.T) {
	t.Parallel()
	a, other := certtest.NewAuthority(t), certtest.NewAuthority(t)
	_, _, all := three(t, a)
	callAll(t, all)
	address := all[1].address()

	known := dial(t, address, over(client(t, a, a.Issue(t, nil))))
	for _, method := range methods {
		err := ask(patient(t), known, method)
		require.NotContains(t, []codes.Code{codes.Unavailable, codes.Unimplemented, codes.DeadlineExceeded},
			status.Code(err), "%s: %v", method, err)
	}

	forged := certtest.NewAuthority(t)
	old := client(t, a, a.Issue(t, nil))
	old.MaxVersion = tls.VersionTLS12
	blind := client(t, other, other.Issue(t, nil))
	blind.InsecureSkipVerify = true
	for name, option := range map[string]grpc.DialOption{
		"plain text":                       grpc.WithTransportCredentials(insecure.NewCredentials()),
		"no certificate":                   over(client(t, a)),
		"another authority's certificate":  over(client(t, a, other.Issue(t, []string{"127.0.0.1"}))),
		"one that verifies nothing itself": over(blind),
		"a forged authority":               over(client(t, a, forged.Issue(t, []string{"127.0.0.1"}))),
		"signs itself":                     over(client(t, a, certtest.Certificate{Cert: forged.PEM, Key: forged.KeyPEM(t)})),
		"an expired certificate": over(client(t, a, a.Issue(t, nil, func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Second)
		}))),
		"a certificate for servers": over(client(t, a, a.Issue(t, nil, func(c *x509.Certificate) {
			c.ExtKeyUsage = c.ExtKeyUsage[:1]
		}))),
		"TLS 1.2": over(old),
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, address, option)
			for _, method := range methods {
				require.Equal(t, codes.Unavailable, status.Code(ask(patient(t), conn, method)), method)
			}
			_, err := peer.Identify(patient(t), address, option)
			require.ErrorIs(t, err, peer.ErrNoAnswer)
			require.NotErrorIs(t, err, peer.ErrRefused)
		})
	}
	callAll(t, all)
}

// traffic makes calls without pause: from each member, and from outside, each over its own connection.
type traffic struct {
	t     *testing.T
	stop  context.CancelFunc
	wg    sync.WaitGroup
	calls []*atomic.Int64
}

func newTraffic(t *testing.T, members []*member, outside *mtls.Certificates) *traffic {
	ctx, stop := context.WithCancel(patient(t))
	f := &traffic{t: t, stop: stop}
	f.run(ctx, "from outside", func(ctx context.Context, i int) error {
		conn, err := grpc.NewClient("passthrough:///"+members[i%len(members)].address(), outside.DialOption())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_, err = add(metadata.AppendToOutgoingContext(ctx, objects.KeyHeader, fmt.Sprint("key", i%40)), conn)
		return err
	})
	for _, m := range members {
		f.run(ctx, m.address(), func(ctx context.Context, i int) error {
			_, err := add(ctx, m.Objects().At(fmt.Sprint("key", i%40)))
			return err
		})
	}
	t.Cleanup(f.end)
	return f
}

func (f *traffic) run(ctx context.Context, name string, call func(ctx context.Context, i int) error) {
	calls := &atomic.Int64{}
	f.calls = append(f.calls, calls)
	f.wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := call(ctx, i); err != nil && ctx.Err() == nil {
				f.t.Errorf("call %d %s: %v", i, name, err)
				return
			}
			calls.Add(1)
		}
	})
}

// more waits until each caller has made some more calls.
func (f *traffic) more() {
	f.t.Helper()
	for _, calls := range f.calls {
		until := calls.Load() + 20
		require.Eventually(f.t, func() bool { return f.t.Failed() || calls.Load() >= until }, time.Minute, time.Millisecond)
	}
	require.False(f.t, f.t.Failed())
}

func (f *traffic) end() {
	f.stop()
	f.wg.Wait()
}

// The certificates, and then the authority, are replaced while calls run. No call fails.
func TestCertificatesAreReplacedWhileCallsRun(t *testing.T) {
	t.Parallel()
	a, next := certtest.NewAuthority(t), certtest.NewAuthority(t)
	etcd, w, all := three(t, a)
	outside, outsider := files(t, a)
	caller := load(t, config(outside))
	callAll(t, all)
	calls := newTraffic(t, all, caller)
	calls.more()
	looking := client(t, a, outsider)

	// reload replaces the files of all programs and makes each read them.
	reload := func(write func(f certtest.Files)) {
		t.Helper()
		for _, m := range all {
			write(m.files)
			require.NoError(t, m.certs.Reload())
			calls.more()
		}
		write(outside)
		require.NoError(t, caller.Reload())
		calls.more()
	}

	var serials []string
	issue := func(by *certtest.Authority) {
		t.Helper()
		serials = nil
		reload(func(f certtest.Files) {
			cert := by.Issue(t, []string{"127.0.0.1"})
			f.Write(t, cert)
			serials = append(serials, cert.Serial.String())
		})
		for i, m := range all {
			require.Equal(t, serials[i], shown(t, m.address(), looking).SerialNumber.String())
			require.Equal(t, serials[i], m.certs.Leaf().SerialNumber.String())
		}
	}
	issue(a) // from the same authority

	reload(func(f certtest.Files) { f.WriteCA(t, a, next) })
	require.True(t, looking.RootCAs.AppendCertsFromPEM(next.PEM))
	issue(next)
	_, err := peer.Identify(patient(t), all[0].address(), over(looking))
	require.NoError(t, err, "the old authority's certificates are good as long as it is in the files")
	reload(func(f certtest.Files) { f.WriteCA(t, next) })
	calls.more()

	_, err = peer.Identify(patient(t), all[0].address(), over(looking))
	require.ErrorIs(t, err, peer.ErrNoAnswer, "and then no more")
	stale, _ := files(t, a, "127.0.0.1")
	n := server(t, "127.0.0.1:0", load(t, config(stale)))
	_, err = peer.Identify(patient(t), n.AdvertiseAddress(), caller.DialOption())
	require.ErrorContains(t, err, "certificate signed by unknown authority", "neither are servers with those called")

	// Broken files on one node stop nothing, and a node that joins now connects to all others.
	certtest.ReplaceFile(t, all[0].files.Key, []byte("broken"))
	require.ErrorContains(t, all[0].certs.Reload(), "mtls: KeyFile "+all[0].files.Key+": name the PEM file")
	f, _ := files(t, next, "127.0.0.1")
	joined := join(t, etcd, w, f)
	all = append(all, joined)
	callAll(t, all)
	require.Eventually(t, func() bool { return (*peer.Node)(joined.node).Watchers() == 2 }, time.Minute, time.Millisecond)
	require.Equal(t, serials[0], shown(t, all[0].address(), client(t, next, next.Issue(t, nil))).SerialNumber.String())
	calls.more()
	calls.end()
	for _, m := range all {
		require.Len(t, m.Members(), 4)
		require.False(t, strings.Contains(m.log.String(), "[ERROR]"), m.log.String())
	}
}
