//go:build unix

package integration

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goverse/goverse/integration/internal/procs"
)

func TestOldServersAreWarnedOf(t *testing.T) {
	t.Parallel()
	const warning = "upgrade to 3.4.31, 3.5.13 or later"
	onEach(t, func(t *testing.T, flavour procs.Flavour) {
		etcd := kit.StartEtcd(t, flavour)
		nodes, _ := startNodes(t, procs.NodeConfig{Etcd: etcd.Endpoint}, 1)
		said := nodes[0].Output()
		doctor := kit.Goversed(t, "doctor", "--etcd", etcd.Endpoint, "--prefix", procs.Prefix, "--ttl", "2s")
		require.Zero(t, doctor.Exit(t, patience), doctor.Output())
		require.Equal(t, flavour == procs.Etcd34, strings.Contains(doctor.Output(), "-> "+warning), doctor.Output())
		if flavour != procs.Etcd34 {
			require.NotContains(t, said, warning)
			return
		}
		require.Contains(t, said, warning)
		require.Contains(t, said, "version=3.4.")
	})
}
