package target

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/bench/internal/etcdproc"
	"github.com/goverse/goverse/bench/internal/reexec"
	"github.com/goverse/goverse/bench/internal/report"
	"github.com/goverse/goverse/bench/internal/testkit/redisproc"
	"github.com/goverse/goverse/internal/test/needed"
)

// TestMain makes this binary the etcd that a test starts, and checks for leaked goroutines.
func TestMain(m *testing.M) {
	reexec.ServeAndExit(etcdproc.Serve)
	goleak.VerifyTestMain(m)
}

// The measured locks work: two contenders for the same lock exclude each other, and contenders for different
// locks do not.
func TestEveryLibraryExcludes(t *testing.T) {
	require.NoError(t, withEtcd(func(p *etcdproc.Process) error {
		clients, closeAll, err := dial(t.Context(), p.Endpoint, 4)
		require.NoError(t, err)
		defer closeAll()
		all, closeLocks, err := inEtcd(t.Context(), clients[:sides], clients[sides:])
		require.NoError(t, err)
		defer closeLocks()
		servers, closeServers, err := withServers(t.Context())
		require.NoError(t, err)
		defer closeServers()
		bare, err := bareQueues(t.Context(), clients[:sides])
		require.NoError(t, err)
		defer bare.close()
		for _, l := range append(append(all, bare), present(servers)...) {
			t.Run(l.name, func(t *testing.T) { excludes(t, l) })
		}
		return nil
	}))
}

func excludes(t *testing.T, l library) {
	all, err := l.wanters(t.Context(), 4, one)
	require.NoError(t, err)
	require.NoError(t, all[0].lock())
	other, err := l.wanter(t.Context(), "another", 0)
	require.NoError(t, err)
	require.NoError(t, other.pair())
	got := make(chan error, 1)
	go func() { got <- all[1].pair() }()
	select {
	case err := <-got:
		t.Fatalf("two have it: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, all[0].unlock())
	require.NoError(t, <-got)
	took, rate, err := handoversOf(all, 5, courtesy)
	require.NoError(t, err)
	require.Len(t, took, 5)
	require.Positive(t, rate)
}

func TestAPeerThatIsNotInstalledIsSaidInTheTable(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(needed.Env, "")
	all, closeAll, err := withServers(t.Context())
	require.NoError(t, err)
	defer closeAll()
	require.NotContains(t, namesOf(present(all)), redisName)
	r := &report.Result{}
	sayAbsent(all, r)
	require.Contains(t, r.Rows, report.Row{What: redisName, Measured: "not measured: " +
		redisproc.ErrNotInstalled.Error()})

	t.Setenv(needed.Env, "redis")
	_, _, err = withServers(t.Context())
	require.ErrorIs(t, err, redisproc.ErrNotInstalled, "what is required must be there")
}

func namesOf(all []library) (names []string) {
	for _, l := range all {
		names = append(names, l.name)
	}
	return names
}
