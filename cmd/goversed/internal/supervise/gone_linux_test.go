package supervise

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An unreadable state is no proof that no process is left.
func TestNotToKnowIsNotGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	events := filepath.Join(dir, "cgroup.events")
	require.False(t, cgroupPopulated(dir), "it is gone")
	for text, want := range map[string]bool{"populated 1\nfrozen 0\n": true, "populated 0\nfrozen 0\n": false, "": true} {
		require.NoError(t, os.WriteFile(events, []byte(text), 0o600))
		require.Equal(t, want, cgroupPopulated(dir), text)
	}
	require.NoError(t, os.Remove(events))
	require.NoError(t, os.Mkdir(events, 0o700)) // exists, but cannot be read
	require.True(t, cgroupPopulated(dir))

	proc := t.TempDir()
	_, err := childrenOf(1, filepath.Join(proc, "none"))
	require.Error(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "12"), 0o700)) // the process ended meanwhile
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "sys", "stat"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "13"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(proc, "13", "stat"),
		[]byte("13 (a) 1 (b) S 7 13 13 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1\n"), 0o600))
	children, err := childrenOf(7, proc)
	require.NoError(t, err)
	require.Equal(t, []process{{pid: 13, began: "4711"}}, children)
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "14", "stat"), 0o700)) // exists, but cannot be read
	children, err = childrenOf(7, proc)
	require.Error(t, err)
	require.Len(t, children, 1)
}
