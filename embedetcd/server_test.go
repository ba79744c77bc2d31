package embedetcd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/pace"
	"github.com/goverse/goverse/internal/test/porttest"
)

func TestServesOverTCPAndInProcess(t *testing.T) {
	began := time.Now()
	s := start(t, Config{})
	t.Logf("serving after %v", time.Since(began))
	remote := dial(t, s.Endpoint())
	_, err := remote.Put(patient(t), "over", "tcp")
	require.NoError(t, err)
	require.Equal(t, "tcp", value(t, s.Client(), "over"))
	_, err = s.Client().Put(patient(t), "in", "process")
	require.NoError(t, err)
	require.Equal(t, "process", value(t, remote, "in"))
	require.NoError(t, s.Err())

	members, err := remote.MemberList(patient(t))
	require.NoError(t, err)
	require.Equal(t, []string{"http://" + s.Endpoint()}, members.Members[0].ClientURLs, "clients that sync must find it")
}

func TestTestTimingGrantsShortLeases(t *testing.T) {
	lease, err := start(t, Config{}).Client().Grant(patient(t), 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, lease.TTL)
}

func TestDefaultTiming(t *testing.T) {
	s, err := Start(patient(t), Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	lease, err := s.Client().Grant(patient(t), 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, lease.TTL, "the floor that the comment of ElectionTimeout names")
}

func TestCloseLeavesNothing(t *testing.T) {
	s := start(t, Config{})
	dir := s.dir.path
	require.DirExists(t, dir)
	// An open watch, over TCP and in process, must not make Close wait.
	remote := dial(t, s.Endpoint())
	over, in := remote.Watch(patient(t), "x", clientv3.WithCreatedNotify()), s.Client().Watch(patient(t), "x",
		clientv3.WithCreatedNotify())
	require.True(t, (<-over).Created)
	require.True(t, (<-in).Created)

	meter := pace.StartMeter(t)
	began := time.Now()
	require.NoError(t, s.Close())
	t.Logf("closed after %v", time.Since(began))
	require.Less(t, time.Since(began), meter.Scale(3*time.Second), "etcd by itself waits for watches to end")
	require.NoError(t, s.Close())
	<-s.Done()
	require.NoError(t, s.Err())
	require.NoDirExists(t, dir)
	porttest.RequireFree(t, s.Endpoint())
	for resp := range in { // it closes, perhaps after a final response
		require.Empty(t, resp.Events)
	}
}

func TestRestartOnTheSameDataAndPort(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	s := start(t, Config{DataDir: dir})
	remote := dial(t, s.Endpoint())
	put, err := remote.Put(patient(t), "key", "kept")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.DirExists(t, dir)

	again := start(t, Config{DataDir: dir, ListenClient: s.Endpoint()})
	require.Equal(t, s.Endpoint(), again.Endpoint())
	require.Equal(t, "kept", value(t, again.Client(), "key"))
	require.Equal(t, "kept", value(t, remote, "key"), "the old client connects again")
	now, err := again.Client().Get(patient(t), "key")
	require.NoError(t, err)
	require.Equal(t, put.Header.ClusterId, now.Header.ClusterId)
}

func TestNewDataIsANewCluster(t *testing.T) {
	a, err := start(t, Config{}).Client().Get(patient(t), "x")
	require.NoError(t, err)
	b, err := start(t, Config{}).Client().Get(patient(t), "x")
	require.NoError(t, err)
	require.NotEqual(t, a.Header.ClusterId, b.Header.ClusterId)
}

func TestListensOnEveryInterface(t *testing.T) {
	for _, listen := range []string{":0", "0.0.0.0:0", "localhost:0"} {
		s := start(t, Config{ListenClient: listen})
		host, _, err := net.SplitHostPort(s.Endpoint())
		require.NoError(t, err)
		require.Contains(t, []string{"127.0.0.1", "localhost"}, host)
		require.Equal(t, "", value(t, dial(t, s.Endpoint()), "x"))
	}
}

func TestLogGoesToTheLogger(t *testing.T) {
	var out logtest.Buffer
	s := start(t, Config{Logger: out.LoggerWith(hclog.LoggerOptions{Name: "here", Level: hclog.Debug})})
	require.NoError(t, s.Close())
	require.Contains(t, out.String(), "here.etcd: ready to serve client requests")
	require.NotContains(t, out.String(), "[INFO]", "etcd's chatter is debug")
	require.Contains(t, out.String(), "[DEBUG] here.etcd: Running http and grpc server on single port",
		"a remark on a default is no warning")
	require.Contains(t, out.String(), "[DEBUG] here.etcd: setting up serving from embedded etcd failed",
		"a close is no error")
}

func TestEndByItselfIsReported(t *testing.T) {
	s := start(t, Config{})
	s.etcd.Server.HardStop()
	<-s.Done()
	require.ErrorIs(t, s.Err(), ErrStopped)
	require.NoError(t, s.Close())
	porttest.RequireFree(t, s.Endpoint())
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Start(ctx, Config{})
	require.ErrorIs(t, err, context.Canceled)

	// One member of three has no majority, so it never serves.
	dir := t.TempDir()
	cfg := TestTiming(Config{DataDir: dir, Name: "a", Peers: map[string]string{}})
	for _, name := range []string{"a", "b", "c"} {
		cfg.Peers[name], err = choosePort(patient(t), "Peers", "127.0.0.1:0")
		require.NoError(t, err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err = Start(ctx, cfg)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotContains(t, err.Error(), "\n")
	porttest.RequireFree(t, cfg.Peers["a"])
	lock, err := openDataDir(dir)
	require.NoError(t, err, "the directory must be free again")
	require.NoError(t, lock.release())
}

func TestDataDirThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	taken := t.TempDir()
	start(t, Config{DataDir: taken})
	spoilt := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(spoilt, "member"), nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "below"), taken, spoilt} {
		_, err := Start(patient(t), TestTiming(Config{DataDir: dir}))
		require.ErrorIs(t, err, ErrDataDir, dir)
		require.Contains(t, err.Error(), dir)
		require.Contains(t, err.Error(), "DataDir")
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestPortInUse(t *testing.T) {
	s := start(t, Config{})
	_, err := Start(patient(t), TestTiming(Config{ListenClient: s.Endpoint()}))
	require.ErrorIs(t, err, ErrAddressInUse)
	require.Contains(t, err.Error(), s.Endpoint())
	require.Contains(t, err.Error(), "set ListenClient")
	require.NotContains(t, err.Error(), "\n")

	cfg := TestTiming(Config{Peers: map[string]string{"goverse": s.Endpoint()}})
	_, err = Start(patient(t), cfg)
	require.ErrorIs(t, err, ErrAddressInUse)
	require.Contains(t, err.Error(), "Peers")
}
