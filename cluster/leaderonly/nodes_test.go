package leaderonly_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/leaderonly"
	"github.com/goverse/goverse/clustertest"
	"github.com/goverse/goverse/internal/test/etcdtest"
	"github.com/goverse/goverse/internal/test/logtest"
	"github.com/goverse/goverse/internal/test/nodetest"
	"github.com/goverse/goverse/internal/test/pace"
)

const patience = time.Minute

func post(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/x", nil))
	return w
}

// writes returns a handler that writes by the term once goOn is closed.
func writes(begun chan<- struct{}, goOn <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-goOn
		term, _ := leaderonly.TermFrom(r.Context())
		if _, err := term.Txn(r.Context()).Then(clientv3.OpPut("/written", fmt.Sprint(term.Token()))).Commit(); err != nil {
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func nodes(t *testing.T) (*clustertest.Cluster, [2]*cluster.Cluster) {
	t.Helper()
	c := clustertest.New(t, 2, clustertest.WithConfig(func(i int, cfg *cluster.Config) {
		cfg.HTTPAddress = fmt.Sprintf("10.0.0.%d:80", i+1)
	}))
	return c, [2]*cluster.Cluster{c.Node(0).Cluster(), c.Node(1).Cluster()}
}

// handOver moves leadership while a request runs on the first leader, which answers it. A request that arrives in
// the meantime waits, and is refused once the next leader is known.
func handOver(t *testing.T, of [2]leaderonly.Leadership, resign func(ctx context.Context) error) {
	t.Helper()
	ctx := etcdtest.Context(t)
	require.Eventually(t, func() bool { return of[0].Leader().Leads && of[1].Leader().URL == "http://10.0.0.1:80" },
		patience, time.Millisecond)
	require.Eventually(t, of[1].Next, patience, time.Millisecond)
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	first := leaderonly.Handler(of[0], writes(begun, goOn), leaderonly.Options{Wait: patience})
	second := leaderonly.Handler(of[1], writes(begun, goOn), leaderonly.Options{Wait: patience})
	w := post(second)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "http://10.0.0.1:80", w.Header().Get(leaderonly.LeaderHeader))

	running, resigned, waiting := make(chan int, 1), make(chan error, 1), make(chan *httptest.ResponseRecorder, 1)
	go func() { running <- post(first).Code }()
	<-begun
	go func() { resigned <- resign(ctx) }()
	require.Eventually(t, func() bool { return !of[0].Leader().Leads }, patience, time.Millisecond)
	require.True(t, of[0].Leader().Own, "it works the rest of its term off")
	require.False(t, of[1].Leader().Leads)
	go func() { waiting <- post(first) }()
	close(goOn)
	require.Equal(t, http.StatusNoContent, <-running)
	require.NoError(t, <-resigned)
	w = <-waiting
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "http://10.0.0.2:80", w.Header().Get(leaderonly.LeaderHeader))
	require.Eventually(t, func() bool { return of[1].Leader().Leads }, patience, time.Millisecond)
	require.Equal(t, http.StatusNoContent, post(second).Code)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c, of := nodes(t)
	c.WaitLeaderIs(c.Node(0).Address())
	handOver(t, [2]leaderonly.Leadership{leaderonly.Cluster(of[0]), leaderonly.Cluster(of[1])}, of[0].Resign)
	c.Node(1).Stop()
	require.Equal(t, "not-ready", post(leaderonly.Handler(leaderonly.Cluster(of[1]), nil,
		leaderonly.Options{})).Header().Get(leaderonly.RefusedHeader))
}

// While a program leads that is no node, no node can answer: the refusal says so, and does not send the request on.
func TestLeaderThatIsNoNode(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	c, of := nodes(t)
	_, runner, err := leaderelection.New(leaderelection.Config{Client: c.Client(), EtcdPrefix: clustertest.Prefix,
		ID: "only"})
	require.NoError(t, err)
	require.NoError(t, runner.Start(ctx))
	t.Cleanup(func() { require.NoError(t, runner.Stop(context.Background())) })
	require.Eventually(t, func() bool { m, ok := of[0].Member("only"); return ok && m.ElectionOnly }, patience,
		time.Millisecond)
	require.NoError(t, of[0].Transfer(ctx, "only"))

	outside, err := concurrency.NewSession(c.Client())
	require.NoError(t, err)
	defer outside.Close()
	named := concurrency.NewElection(outside, strings.TrimSuffix(nodetest.Keys.Elections().QueuePrefix("job"), "/"))
	require.NoError(t, named.Campaign(ctx, "script"))
	observer, err := of[0].Elections().Observe("job")
	require.NoError(t, err)
	defer observer.Close()
	for name, l := range map[string]leaderonly.Leadership{"only": leaderonly.Cluster(of[0]),
		"script": leaderonly.Election(of[0], observer)} {
		require.Eventually(t, func() bool { return l.Leader().Name == name }, patience, time.Millisecond)
		for _, way := range []leaderonly.Elsewhere{leaderonly.Refuse, leaderonly.Redirect, leaderonly.Forward} {
			var log logtest.Buffer
			w := post(leaderonly.Handler(l, nil, leaderonly.Options{Elsewhere: way, Logger: log.Logger()}))
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Equal(t, "not-leader", w.Header().Get(leaderonly.RefusedHeader))
			require.Contains(t, w.Body.String(), name+" leads, which is no node and answers no requests")
			require.NotContains(t, w.Body.String(), "HTTPAddress")
			require.NotContains(t, w.Body.String(), "send the request")
			log.Await(t, "goversed transfer")
		}
		intercept := leaderonly.UnaryServerInterceptor(l, leaderonly.GRPCOptions{})
		_, err = intercept(ctx, nil, &grpc.UnaryServerInfo{}, nil)
		require.ErrorContains(t, err, "which is no node and answers no requests")
	}
}

func TestElection(t *testing.T) {
	t.Parallel()
	_, of := nodes(t)
	first, err := of[0].Elections().Stand("writes")
	require.NoError(t, err)
	require.Eventually(t, first.IsLeader, patience, time.Millisecond)
	observer, err := of[1].Elections().Observe("writes")
	require.NoError(t, err)
	defer observer.Close()
	only := leaderonly.Election(of[1], observer)
	require.Eventually(t, func() bool { return only.Leader().URL == "http://10.0.0.1:80" }, patience, time.Millisecond)
	require.Equal(t, "not-leader", post(leaderonly.Handler(only, nil, leaderonly.Options{})).Header().
		Get(leaderonly.RefusedHeader), "it does not stand")
	require.False(t, only.Next())
	second, err := of[1].Elections().Stand("writes")
	require.NoError(t, err)
	handOver(t, [2]leaderonly.Leadership{leaderonly.Election(of[0], first), leaderonly.Election(of[1], second)},
		first.Resign)
}

func TestElector(t *testing.T) {
	t.Parallel()
	store := elector.NewMemory()
	stand := func(id string) (leaderonly.Leadership, func()) {
		e, err := elector.New(elector.Config{LeaseStore: store, CandidateID: id, ReleaseOnCancel: true})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		stop := func() { cancel(); require.NoError(t, <-ended) }
		return leaderonly.Elector(e, id, func(id string) string { return id + ":80" }), stop
	}
	tokens := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, is := leaderonly.TermFrom(r.Context())
		_, _ = fmt.Fprint(w, leaderonly.TokenFrom(r.Context()), is)
	})
	a, stopA := stand("a")
	require.Eventually(t, func() bool { return a.Leader().Leads }, patience, time.Millisecond)
	require.Equal(t, "1 false", post(leaderonly.Handler(a, tokens, leaderonly.Options{})).Body.String())
	b, stopB := stand("b")
	defer stopB()
	require.Eventually(t, func() bool { return b.Leader().Name == "a" }, patience, time.Millisecond)
	h := leaderonly.Handler(b, tokens, leaderonly.Options{Wait: patience})
	require.Equal(t, "http://a:80", post(h).Header().Get(leaderonly.LeaderHeader))
	stopA()
	require.Eventually(t, func() bool { return b.Leader().Name != "a" }, patience, time.Millisecond)
	require.Equal(t, "2 false", post(h).Body.String(), "it waits until it leads")
}

// streamOf is a stream with a context.
type streamOf struct {
	grpc.ServerStream
	ctx context.Context
}

func (s streamOf) Context() context.Context { return s.ctx }

// A long stream does not keep a leader from giving way: its context ends at once, as in Lead.
func TestStreamEndsWithTheTerm(t *testing.T) {
	c, of := nodes(t)
	c.WaitLeaderIs(c.Node(0).Address())
	begun, ended := make(chan struct{}), make(chan error, 1)
	intercept := leaderonly.StreamServerInterceptor(leaderonly.Cluster(of[0]), leaderonly.GRPCOptions{})
	go func() {
		ended <- intercept(nil, streamOf{ctx: t.Context()}, &grpc.StreamServerInfo{}, func(_ any, s grpc.ServerStream) error {
			close(begun)
			<-s.Context().Done()
			return context.Cause(s.Context())
		})
	}()
	<-begun
	meter := pace.StartMeter(t)
	began := time.Now()
	require.NoError(t, of[0].Resign(etcdtest.Context(t)))
	require.Less(t, time.Since(began), meter.Scale(4*time.Second), "WorkTimeout is 5 s")
	require.ErrorIs(t, <-ended, leaderelection.ErrTermOver)
	c.WaitLeaderIs(c.Node(1).Address())
}
