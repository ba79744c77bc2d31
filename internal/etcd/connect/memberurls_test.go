package connect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAway(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	require.Equal(t, []string{"c"}, awayAddresses([]string{"a", "b", "c"}, []addressState{
		{openConns: 1, awaySince: now.Add(-time.Hour)},
		{awaySince: now.Add(-awayAfter + 1)},
		{awaySince: now.Add(-awayAfter)},
	}, now))
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	members := []etcdMember{{1, []string{"http://a:2379", "https://a:2379"}}, {2, []string{"http://b:2379"}},
		{3, []string{"://", "unix://c", "http://"}}}
	require.Equal(t, []candidateURL{{"http://b:2379", 2}}, candidateURLs(members, []string{"a:2379"}, false))
	require.Equal(t, []candidateURL{{"https://a:2379", 1}}, candidateURLs(members, []string{"https://x:2379"}, true),
		"never in plain text where TLS is spoken")
	require.Empty(t, candidateURLs(members, []string{"https://a:2379/", "http://b:2379"}, false))
	require.Equal(t, []string{"http://b:2379"}, stillAdvertised([]string{"http://gone:1", "http://b:2379"}, members))
}

// etcd advertises localhost by default, which is a different machine to a program on another one.
func TestAdvertisedLocalhost(t *testing.T) {
	t.Parallel()
	for _, self := range []string{"http://localhost:2379", "https://127.0.0.1:2379", "http://[::1]:2379",
		"http://0.0.0.0:2379"} {
		require.True(t, meansOtherMachine(self, []string{"etcd.example:2379", "10.0.0.1:2379"}), self)
		require.False(t, meansOtherMachine(self, []string{"https://etcd.example:2379", "localhost:2379"}), self)
	}
	require.False(t, meansOtherMachine("http://10.0.0.2:2379", []string{"10.0.0.1:2379"}))
}
