//go:build unix

package integration

import (
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
		if flavour == procs.Etcd37 {
			require.NotContains(t, said, warning)
			return
		}
		require.Contains(t, said, warning)
		require.Contains(t, said, "version=3.4.")
	})
}
