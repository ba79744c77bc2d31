package etcdversion

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOldServersAreKnown(t *testing.T) {
	for version, old := range map[string]bool{
		"3.3.27": true, "3.4.23": true, "3.4.30": true, "3.4.31": false, "3.4.99": false, "3.5.12": true,
		"3.5.13": false, "3.6.0": false, "3.7.3": false, "4.0.0": false, "2.3.8": true, "not a version": false,
	} {
		require.Equal(t, old, RevokesRenewedLeases(version), version)
	}
}
