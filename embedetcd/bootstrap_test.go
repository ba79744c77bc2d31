package embedetcd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"

	"github.com/goverse/goverse/internal/test/certtest"
	"github.com/goverse/goverse/internal/test/logtest"
)

// trio returns the configurations of three members on free ports, by name.
func trio(t *testing.T, alter func(*Config)) map[string]Config {
	t.Helper()
	peers := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		address, err := choosePort(patient(t), "Peers", "127.0.0.1:0")
		require.NoError(t, err)
		peers[name] = address
	}
	out := map[string]Config{}
	for name := range peers {
		cfg := calmTiming(Config{Name: name, Peers: peers, DataDir: filepath.Join(t.TempDir(), "etcd")})
		if alter != nil {
			alter(&cfg)
		}
		out[name] = cfg
	}
	return out
}

// startAll starts members at the same time. They are closed with the test.
func startAll(t *testing.T, configs ...Config) []*Server {
	t.Helper()
	servers, errs := make([]*Server, len(configs)), make([]error, len(configs))
	var wg sync.WaitGroup
	for i, cfg := range configs {
		wg.Go(func() { servers[i], errs[i] = Start(patient(t), cfg) })
	}
	wg.Wait()
	for i := range servers {
		if servers[i] != nil {
			t.Cleanup(func() { _ = servers[i].closeServer(true) })
		}
	}
	for _, err := range errs {
		require.NoError(t, err)
	}
	return servers
}

func clusterID(t *testing.T, s *Server) uint64 {
	t.Helper()
	// The read is serializable: the member answers alone, because the leader may be changing on a busy machine.
	got, err := s.Client().Get(patient(t), "x", clientv3.WithSerializable())
	require.NoError(t, err)
	return got.Header.ClusterId
}

// New members agree that they are new, whichever starts first. Two clusters with the same members have
// different ids.
func TestNewMembersAgree(t *testing.T) {
	t.Parallel()
	cfg := trio(t, nil)
	early, cancel := context.WithCancel(patient(t))
	defer cancel()
	log := &logtest.Buffer{}
	a := cfg["a"]
	a.Logger = log.Logger()
	alone := make(chan error, 1)
	go func() {
		_, err := Start(early, a)
		alone <- err
	}()
	log.Await(t, "waiting for the other members of etcd")
	cancel()
	err := <-alone
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "b, c did not answer: start all members of a new cluster")
	require.False(t, (&dataDir{path: a.DataDir}).hasLog(), "nothing has begun")

	servers := startAll(t, cfg["a"], cfg["b"], cfg["c"])
	first := clusterID(t, servers[0])
	for _, s := range servers {
		require.Equal(t, first, clusterID(t, s))
	}
	for _, s := range servers {
		require.NoFileExists(t, filepath.Join(s.dir.path, noteName))
		require.NoError(t, s.closeServer(true))
		require.NoError(t, os.RemoveAll(s.dir.path))
	}
	require.NotEqual(t, first, clusterID(t, startAll(t, cfg["c"], cfg["b"], cfg["a"])[0]))
}

// A member that has agreed, and is restarted before the others have, meets them again, because it has not
// begun.
func TestOneThatHasAgreedWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	cfg := trio(t, nil)
	a := cfg["a"].withDefaults()
	dir := &dataDir{path: a.DataDir}
	require.NoError(t, os.MkdirAll(a.DataDir, 0o700))
	require.NoError(t, dir.storeNote(greeting{Members: initialCluster(a) + " " + a.Token, Nonce: "na", Agreed: "of a"}))
	early, cancel := context.WithTimeout(patient(t), 500*time.Millisecond)
	defer cancel()
	_, err := Start(early, cfg["a"])
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, dir.hasLog())
	servers := startAll(t, cfg["a"], cfg["b"], cfg["c"])
	require.Equal(t, clusterID(t, servers[0]), clusterID(t, servers[2]))
}

// A member that has lost its data does not rejoin as a new one: neither while the others run, nor next to one
// of them that it cannot reach.
func TestMemberThatLostItsData(t *testing.T) {
	t.Parallel()
	ca, files := certtest.NewAuthority(t), certtest.NewFiles(t)
	files.Write(t, ca.Issue(t, []string{"127.0.0.1"}))
	files.WriteCA(t, ca)
	cfg := trio(t, func(c *Config) {
		c.ClientTLS = TLS{CertFile: files.Cert, KeyFile: files.Key, CAFile: files.CA}
		c.PeerTLS = c.ClientTLS
	})
	servers := startAll(t, cfg["a"], cfg["b"], cfg["c"])
	a, b, c := servers[0], servers[1], servers[2]
	awaitPut(t, a.Client(), "key", "before")
	lost := c.etcd.Server.MemberID()
	require.NoError(t, c.closeServer(true))
	require.NoError(t, os.RemoveAll(cfg["c"].DataDir))
	_, err := Start(patient(t), cfg["c"])
	require.ErrorIs(t, err, ErrMemberLost)
	require.NotContains(t, err.Error(), "\n")

	require.NoError(t, a.closeServer(true))
	require.NoError(t, b.closeServer(true))
	early, cancel := context.WithTimeout(patient(t), 500*time.Millisecond)
	defer cancel()
	_, err = Start(early, cfg["c"])
	require.ErrorIs(t, err, context.DeadlineExceeded, "nobody can say whether it is new")
	servers = startAll(t, cfg["a"], cfg["b"])
	a = servers[0]
	require.Equal(t, "before", value(t, a.Client(), "key"))

	remove(t, a, lost)
	require.Eventually(t, func() bool { // until both other members know it
		_, err = Start(patient(t), cfg["c"])
		return !errors.Is(err, ErrMemberLost)
	}, 20*time.Second, 10*time.Millisecond)
	require.ErrorIs(t, err, ErrNotMember)
	var added *clientv3.MemberAddResponse
	require.Eventually(t, func() bool {
		if added, err = a.Client().MemberAddAsLearner(patient(t), []string{"https://" + cfg["c"].Peers["c"]}); err != nil {
			require.NotErrorIs(t, err, rpctypes.ErrPeerURLExist)
		}
		return err == nil
	}, 20*time.Second, 10*time.Millisecond, "etcd takes a while to trust members that have just come")
	require.Eventually(t, func() bool { // until both other members know it
		c, err = Start(patient(t), cfg["c"])
		return !errors.Is(err, ErrNotMember)
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, err)
	defer func() { _ = c.closeServer(true) }()
	require.Eventually(t, func() bool {
		_, err = a.Client().MemberPromote(patient(t), added.Member.ID)
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "before", value(t, c.Client(), "key"))
	require.Eventually(t, func() bool { return len(c.Endpoints()) == 3 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, "https://"+c.Endpoint(), c.Endpoints()[0])

	require.NoError(t, c.Close())
	c = startAll(t, cfg["c"])[0]
	require.Equal(t, "before", value(t, c.Client(), "key"), "it restarts as an ordinary member")
}

// remove removes a dead member.
func remove(t *testing.T, by *Server, id types.ID) {
	t.Helper()
	require.Eventually(t, func() bool {
		// A change that is lost with etcd's leader is answered only when the request times out.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := by.Client().MemberRemove(ctx, uint64(id))
		return err == nil || errors.Is(err, rpctypes.ErrMemberNotFound) // an answer may be lost
	}, 60*time.Second, 10*time.Millisecond)
}

// A member that closes while it is etcd's leader first hands over leadership.
func TestCloseHandsOver(t *testing.T) {
	t.Parallel()
	log := &logtest.Buffer{}
	cluster, err := StartCluster(patient(t), 3, calmTiming(Config{Logger: log.Logger()}))
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	leader := leaderOf(t, cluster)
	other := cluster.Member((leader + 1) % 3)
	require.NoError(t, cluster.Member(leader).Close())
	require.NotZero(t, other.etcd.Server.Lead())
	require.NotEqual(t, cluster.Member(leader).etcd.Server.MemberID(), other.etcd.Server.Leader())
	require.Contains(t, log.String(), "etcd's leadership was handed over")
}

func TestRemovedMemberSaysSo(t *testing.T) {
	t.Parallel()
	cfg := trio(t, nil)
	servers := startAll(t, cfg["a"], cfg["b"], cfg["c"])
	id := servers[2].etcd.Server.MemberID()
	require.NoError(t, servers[2].closeServer(true))
	remove(t, servers[0], id)
	s, err := Start(patient(t), cfg["c"])
	if err == nil { // it served before it learned of its removal
		<-s.Done()
		err = s.Err()
		require.NoError(t, s.Close())
	}
	require.ErrorIs(t, err, ErrRemoved)
	require.NotContains(t, err.Error(), "\n")
}

func TestWhatAMemberWithoutDataDoesNext(t *testing.T) {
	t.Parallel()
	cfg := Config{Name: "b", Peers: map[string]string{"a": "h1:1", "b": "h2:1", "c": "h3:1"}, DataDir: "dir"}
	mine := greeting{Members: "m", Nonce: "nb"}
	agreed := greeting{Members: "m", Nonce: "nb", Agreed: "na"}
	hello := func(nonce, agreed string) peerAnswer {
		return peerAnswer{greeting: &greeting{Members: "m", Nonce: nonce, Agreed: agreed}}
	}
	runs := func(own *membership.Member) peerAnswer {
		ms := []*membership.Member{
			{ID: 1, RaftAttributes: membership.RaftAttributes{PeerURLs: []string{"http://h1:1"}},
				Attributes: membership.Attributes{Name: "a"}},
			{ID: 3, RaftAttributes: membership.RaftAttributes{PeerURLs: []string{"http://h3:1"}},
				Attributes: membership.Attributes{Name: "c"}}}
		if own != nil {
			own.PeerURLs = []string{"http://h2:1"}
			ms = append(ms, own)
		}
		return peerAnswer{members: ms}
	}
	learner := func(id types.ID) *membership.Member {
		return &membership.Member{ID: id, RaftAttributes: membership.RaftAttributes{IsLearner: true}}
	}
	known := &membership.Member{ID: 2, Attributes: membership.Attributes{Name: "b"}}
	served := &membership.Member{ID: 2, Attributes: membership.Attributes{ClientURLs: []string{"u"}}}
	for name, c := range map[string]struct {
		mine   greeting
		a, c   peerAnswer
		do     action
		agree  string
		misses []string
		err    error
	}{
		"nobody answers":              {mine, peerAnswer{}, peerAnswer{}, doWait, "", []string{"a", "c"}, nil},
		"one does not":                {mine, hello("na", ""), peerAnswer{}, doWait, "", []string{"c"}, nil},
		"all are new":                 {mine, hello("na", ""), hello("nc", ""), doAgree, "na", nil, nil},
		"another has agreed already":  {mine, hello("other", ""), hello("nc", "na"), doAgree, "na", nil, nil},
		"the others have not yet":     {agreed, hello("na", "na"), hello("nc", ""), doWait, "", []string{"c"}, nil},
		"one that agreed is away":     {agreed, peerAnswer{}, hello("nc", "na"), doWait, "", []string{"a"}, nil},
		"all have agreed":             {agreed, hello("na", "na"), hello("nc", "na"), doBegin, "", nil, nil},
		"one has begun":               {agreed, runs(known), peerAnswer{}, doBegin, "", nil, nil},
		"on different things":         {agreed, hello("x", "x"), hello("nc", "na"), 0, "", nil, ErrDataDir},
		"other members":               {greeting{Members: "x"}, hello("na", ""), peerAnswer{}, 0, "", nil, ErrConfig},
		"the cluster knows it":        {mine, runs(known), peerAnswer{}, 0, "", nil, ErrMemberLost},
		"though another is new":       {mine, runs(known), hello("nc", ""), 0, "", nil, ErrMemberLost},
		"it served before it did":     {mine, runs(served), peerAnswer{}, 0, "", nil, ErrMemberLost},
		"nobody knows it":             {mine, runs(nil), runs(nil), 0, "", nil, ErrNotMember},
		"it was added":                {mine, runs(learner(9)), runs(learner(9)), doJoin, "", nil, nil},
		"by what only one says":       {mine, runs(learner(9)), peerAnswer{}, doWait, "", []string{"c"}, nil},
		"one of them is behind":       {mine, runs(learner(9)), runs(learner(8)), doWait, "", []string{"a", "c"}, nil},
		"one has not heard of it":     {mine, runs(learner(9)), runs(nil), doWait, "", []string{"a", "c"}, nil},
		"one of them knows better":    {mine, runs(learner(9)), runs(known), 0, "", nil, ErrMemberLost},
		"agreed, and then not a part": {agreed, runs(nil), peerAnswer{}, 0, "", nil, ErrNotMember},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := nextStep(cfg, c.mine, map[string]peerAnswer{"a": c.a, "c": c.c})
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				require.NotContains(t, err.Error(), "\n")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.do, s.do)
			require.Equal(t, c.agree, s.agree)
			require.Equal(t, c.misses, s.missing)
		})
	}
	require.Equal(t, "a=http://h1:1,b=http://h2:1,c=http://h3:1", joinCluster(cfg, runs(learner(9)).members))
}
