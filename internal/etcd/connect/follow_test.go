package connect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAway(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	require.Equal(t, []string{"c"}, away([]string{"a", "b", "c"}, []link{
		{open: 1, since: now.Add(-time.Hour)},
		{since: now.Add(-awayAfter + 1)},
		{since: now.Add(-awayAfter)},
	}, now))
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	members := []member{{1, []string{"http://a:2379", "https://a:2379"}}, {2, []string{"http://b:2379"}},
		{3, []string{"://", "unix://c", "http://"}}}
	require.Equal(t, []candidate{{"http://b:2379", 2}}, candidates(members, []string{"a:2379"}, false))
	require.Equal(t, []candidate{{"https://a:2379", 1}}, candidates(members, []string{"https://x:2379"}, true),
		"never in plain text where TLS is spoken")
	require.Empty(t, candidates(members, []string{"https://a:2379/", "http://b:2379"}, false))
	require.Equal(t, []string{"http://b:2379"}, listed([]string{"http://gone:1", "http://b:2379"}, members))
}

// etcd advertises localhost by default, which is a different machine to a program on another one.
func TestAdvertisedLocalhost(t *testing.T) {
	t.Parallel()
	for _, self := range []string{"http://localhost:2379", "https://127.0.0.1:2379", "http://[::1]:2379",
		"http://0.0.0.0:2379"} {
		require.True(t, elsewhere(self, []string{"etcd.example:2379", "10.0.0.1:2379"}), self)
		require.False(t, elsewhere(self, []string{"https://etcd.example:2379", "localhost:2379"}), self)
	}
	require.False(t, elsewhere("http://10.0.0.2:2379", []string{"10.0.0.1:2379"}))
}
