package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/embedetcd"
	"github.com/goverse/goverse/internal/port"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/porttest"
	"github.com/goverse/goverse/node"
)

const (
	patience = time.Minute
	tick     = 5 * time.Millisecond
)

// unusedAddress is a loopback address without a listener.
const unusedAddress = "127.0.0.1:1"

func TestEtcdThatCannotBeReached(t *testing.T) {
	t.Parallel()
	cfg := joinConfig(t, unusedAddress)
	cfg.StartTimeout = 300 * time.Millisecond
	d := startDaemon(t, cfg)
	err := d.waitStopped(t)
	require.ErrorIs(t, err, cluster.ErrEtcdUnreachable)
	require.ErrorContains(t, err, "; --start-timeout 0 waits forever")
	require.NotContains(t, err.Error(), "\n")
	porttest.RequireFree(t, d.NodeAddress(), d.HTTPAddress())
}

func TestNoUserWhereEtcdWantsOne(t *testing.T) {
	t.Parallel()
	e, ctx := etcdtest.Start(t), t.Context()
	_, err := e.Client().UserAddWithOptions(ctx, "root", "", &clientv3.UserAddOptions{NoPassword: true})
	require.NoError(t, err)
	_, err = e.Client().UserGrantRole(ctx, "root", "root")
	require.NoError(t, err)
	_, err = e.Client().AuthEnable(ctx)
	require.NoError(t, err)
	cfg := joinConfig(t, e.Endpoint())
	cfg.Cluster.EtcdPrefix = "/goverse"
	err = startDaemon(t, cfg).waitStopped(t)
	require.ErrorIs(t, err, cluster.ErrEtcdDenied)
	require.EqualError(t, err, "etcd refused the user: none was given; set --etcd-user (GOVERSE_ETCD_USER) and "+
		"--etcd-password (GOVERSE_ETCD_PASSWORD) to those of a user with READ and WRITE on the range /goverse/leader- to "+
		"/goverse/shards0 (etcdserver: user name is empty)")
}

func TestAnotherServerThanEtcd(t *testing.T) {
	t.Parallel()
	other := startDaemon(t, embeddedConfig(t))
	other.waitReady(t)
	err := startDaemon(t, joinConfig(t, other.NodeAddress())).waitStopped(t)
	require.ErrorIs(t, err, cluster.ErrNotEtcd)
	require.EqualError(t, err, "what answers at "+other.NodeAddress()+" is no etcd: set --etcd to etcd's client "+
		"address, usually port 2379")
}

func TestNotReadyWhileStarting(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, joinConfig(t, unusedAddress))
	var st httpapi.Status
	require.Eventually(t, func() bool { return getJSON(t, d.HTTPAddress(), "/cluster/status", &st) == http.StatusOK },
		patience, tick)
	require.Equal(t, httpapi.Status{NodeID: d.NodeAddress(), State: "starting", Mode: "election", Store: httpapi.StoreEtcd,
		Queue: []string{}, Nodes: []string{}}, st)
	var body map[string]any
	require.Equal(t, http.StatusServiceUnavailable, getJSON(t, d.HTTPAddress(), "/readyz", &body))
	require.Equal(t, http.StatusOK, getJSON(t, d.HTTPAddress(), "/livez", &body))
	require.Equal(t, http.StatusServiceUnavailable, getJSON(t, d.HTTPAddress(), "/cluster/leader", &body))

	d.stop()
	require.NoError(t, d.waitStopped(t), "a stop that was asked for is no failure")
	porttest.RequireFree(t, d.NodeAddress(), d.HTTPAddress())
}

func TestPortsInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	address := taken.Addr().String()

	cfg := embeddedConfig(t)
	cfg.Listen = address
	_, err = New(cfg)
	require.ErrorIs(t, err, node.ErrAddressInUse)
	require.ErrorContains(t, err, "--listen "+address)

	cfg = embeddedConfig(t)
	cfg.HTTP = address
	_, err = New(cfg)
	require.ErrorIs(t, err, ErrHTTPAddress)
	require.ErrorContains(t, err, "--http "+address)

	cfg = embeddedConfig(t)
	cfg.Etcd.ListenClient = address
	d := startDaemon(t, cfg)
	err = d.waitStopped(t)
	require.ErrorIs(t, err, embedetcd.ErrAddressInUse)
	require.ErrorContains(t, err, "--etcd-listen "+address)
	porttest.RequireFree(t, d.NodeAddress(), d.HTTPAddress())
}

// The port is free in New and taken when the node starts to listen. The error names the flag all the same.
func TestPortTakenMeanwhile(t *testing.T) {
	t.Parallel()
	cfg := joinConfig(t, unusedAddress)
	var err error
	cfg.Listen, err = port.Servers.Draw("127.0.0.1")
	require.NoError(t, err)
	d, err := New(cfg)
	require.NoError(t, err)
	taken, err := net.Listen("tcp", cfg.Listen)
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	err = d.Run(t.Context(), t.Context())
	require.ErrorIs(t, err, node.ErrAddressInUse)
	require.ErrorContains(t, err, "--listen "+cfg.Listen+" is in use")
	require.NotContains(t, err.Error(), "ListenAddress")
}

func TestDataDirInUse(t *testing.T) {
	t.Parallel()
	cfg := embeddedConfig(t)
	first := startDaemon(t, cfg)
	first.waitReady(t)
	err := startDaemon(t, cfg).waitStopped(t)
	require.ErrorIs(t, err, embedetcd.ErrDataDir)
	require.ErrorContains(t, err, "--data-dir "+cfg.Etcd.DataDir)
	require.ErrorContains(t, err, "is used by another running server")
	require.True(t, first.waitReady(t).IsLeader, "the first is not harmed")
}

func TestDamagedData(t *testing.T) {
	t.Parallel()
	cfg := embeddedConfig(t)
	db := filepath.Join(cfg.Etcd.DataDir, "member", "snap", "db")
	require.NoError(t, os.MkdirAll(filepath.Dir(db), 0o700))
	require.NoError(t, os.WriteFile(db, []byte("garbage"), 0o600))
	d := startDaemon(t, cfg)
	err := d.waitStopped(t)
	require.ErrorIs(t, err, embedetcd.ErrDamaged)
	require.EqualError(t, err, "--data-dir "+cfg.Etcd.DataDir+": the embedded etcd's data is damaged ("+db+": invalid "+
		"database): "+
		"restore a backup, or move the directory away and start with an empty one")
	porttest.RequireFree(t, d.NodeAddress(), d.HTTPAddress())
}

func TestTakenAddressIsRefused(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	first := startDaemon(t, joinConfig(t, e.Endpoint()))
	st := first.waitReady(t)
	cfg := joinConfig(t, e.Endpoint())
	cfg.Advertise = first.NodeAddress()
	err := startDaemon(t, cfg).waitStopped(t)
	require.ErrorIs(t, err, cluster.ErrAddressTaken)
	require.NotContains(t, err.Error(), "\n")
	require.Equal(t, st.Token, first.waitReady(t).Token, "the first is not harmed")
}

func TestEmbeddedEtcdThatEndsEndsTheNode(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, embeddedConfig(t))
	d.waitReady(t)
	require.NoError(t, d.etcd.Close())
	require.ErrorIs(t, d.waitStopped(t), errEnded)
	porttest.RequireFree(t, d.NodeAddress(), d.HTTPAddress())
}

func TestHTTPThatEndsEndsTheNode(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, embeddedConfig(t))
	d.waitReady(t)
	require.NoError(t, d.http.Close())
	require.ErrorIs(t, d.waitStopped(t), net.ErrClosed)
}

// holdCall keeps a call to the node running, so that a graceful stop waits for it.
func holdCall(t *testing.T, d *runningDaemon) {
	t.Helper()
	conn, err := grpc.NewClient(d.NodeAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(context.Background())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}))
	_, err = stream.Recv()
	require.NoError(t, err)
}

func TestStopAtOnce(t *testing.T) {
	t.Parallel()
	cfg := embeddedConfig(t)
	cfg.StopTimeout = 0
	d := startDaemon(t, cfg)
	d.waitReady(t)
	holdCall(t, d)
	d.stop()
	<-d.node.Stopping()
	select {
	case err := <-d.result:
		require.FailNow(t, "the call should hold the stop up", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	d.cut()
	err := d.waitStopped(t)
	require.ErrorIs(t, err, ErrStopCut)
	require.ErrorIs(t, err, node.ErrCallsCut)
	require.Equal(t, 1, strings.Count(err.Error(), "asked to stop at once"), err)
	require.NotContains(t, err.Error(), "timeout")
}

func TestStopTimeout(t *testing.T) {
	t.Parallel()
	cfg := embeddedConfig(t)
	cfg.StopTimeout = 100 * time.Millisecond
	d := startDaemon(t, cfg)
	d.waitReady(t)
	holdCall(t, d)
	d.stop()
	err := d.waitStopped(t)
	require.ErrorIs(t, err, ErrStopCut)
	require.ErrorContains(t, err, "--stop-timeout")
}
