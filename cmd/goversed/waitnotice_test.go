package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/cmd/goversed/internal/cli"
)

func TestWaitLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "waiting for etcd at a:1, 4.5s at most: nothing listens there: check --etcd", waitLine("a:1",
		"nothing listens there: check --etcd", 4500*time.Millisecond))
	require.Equal(t, "waiting for etcd at a:1 ...", waitLine("a:1", "", 0))
}

// A server that takes connections and says nothing is no reason to wait in silence, nor to write into JSON.
func TestWaitForASilentEtcd(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	for _, line := range []string{"nodes -o json", "status --etcd-user u --etcd-password p"} {
		r := runGoversed(t, nil, append(strings.Fields(line), "--etcd", l.Addr().String(), "--timeout", "1500ms")...)
		require.Equal(t, cli.ExitFailure, r.code)
		require.Empty(t, r.stdout)
		require.Equal(t, 1, strings.Count(r.stderr, "waiting for etcd"), r.stderr)
		require.Regexp(t, `^goversed: waiting for etcd at `+l.Addr().String()+`, \S+ at most( \.\.\.|: .+)\n`+
			`goversed: etcd cannot be reached at `, r.stderr)
	}
}
