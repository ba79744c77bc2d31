package embedetcd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// written returns a data directory with some data, and its database file.
func written(t *testing.T) (dir, db string) {
	t.Helper()
	dir = t.TempDir()
	s := start(t, Config{DataDir: dir})
	for range 20 {
		_, err := s.Client().Put(patient(t), "key", strings.Repeat("x", 10_000))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	return dir, filepath.Join(dir, "member", "snap", "db")
}

func TestDamagedDatabase(t *testing.T) {
	dir, db := written(t)
	whole, err := os.ReadFile(db)
	require.NoError(t, err)
	page := os.Getpagesize()
	garbage := bytes.Repeat([]byte("garbage\n"), len(whole)/8)
	for name, spoilt := range map[string][]byte{
		"garbage":           garbage,
		"a line":            []byte("garbage\n"),
		"garbage but metas": append(append([]byte{}, whole[:2*page]...), garbage[2*page:]...),
		"cut to the metas":  whole[:2*page],
		"cut to a page":     whole[:page],
		"cut":               whole[:5*page],
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(db, spoilt, 0o600))
			_, err := Start(patient(t), TestTiming(Config{DataDir: dir}))
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorIs(t, err, ErrDataDir)
			require.ErrorContains(t, err, db)
			require.ErrorContains(t, err, "restore a backup")
			require.NotContains(t, err.Error(), "\n")
			t.Log(err)
		})
	}
	require.NoError(t, os.WriteFile(db, nil, 0o600))
	s, err := Start(patient(t), TestTiming(Config{DataDir: dir}))
	require.NoError(t, err, "etcd still has its log")
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(db, nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(db), "1-2.snap"), nil, 0o600))
	_, err = Start(patient(t), TestTiming(Config{DataDir: dir}))
	require.ErrorIs(t, err, ErrDamaged, "its log is no longer whole")
}

func TestWholeDatabaseIsUsed(t *testing.T) {
	dir, _ := written(t)
	require.Len(t, value(t, start(t, Config{DataDir: dir}).Client(), "key"), 10_000)
}

func TestDatabaseThatAnotherProgramHasOpen(t *testing.T) {
	dir, path := written(t)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = Start(patient(t), TestTiming(Config{DataDir: dir}))
	require.ErrorIs(t, err, ErrDataDirInUse)
	require.ErrorIs(t, err, ErrDataDir)
}
