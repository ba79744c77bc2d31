package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

const (
	tempPattern = "goverse-dev-"
	tempLock    = "lock"

	// minTempAge is the age below which sweepTempDirs spares a directory, because its owner may be about to lock it.
	minTempAge = time.Minute
)

// tempDir is a directory that release removes. It contains a lock that the system releases when the process
// ends, so a held lock shows that the owner lives.
type tempDir struct {
	path string
	lock *fileutil.LockedFile
}

// makeTempDir creates a directory in parent. It also removes directories that killed processes left there,
// because etcd's files take some hundred megabytes.
func makeTempDir(parent string) (*tempDir, error) {
	sweepTempDirs(parent, time.Now().Add(-minTempAge))
	path, err := os.MkdirTemp(parent, tempPattern)
	if err != nil {
		return nil, fmt.Errorf("set TMPDIR to a directory that this user may write (%w)", err)
	}
	lock, err := fileutil.TryLockFile(filepath.Join(path, tempLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set TMPDIR to a directory whose file system has locks (%w)", err),
			os.RemoveAll(path))
	}
	return &tempDir{path: path, lock: lock}, nil
}

func (t *tempDir) release() error {
	return errors.Join(os.RemoveAll(t.path), t.lock.Close())
}

// sweepTempDirs removes unlocked directories that were made before the given time. Directories that cannot be removed,
// such as another user's, stay and do no harm.
func sweepTempDirs(parent string, before time.Time) {
	locks, _ := filepath.Glob(filepath.Join(parent, tempPattern+"*", tempLock)) // the pattern is well-formed
	for _, name := range locks {
		info, err := os.Stat(name)
		if err != nil || info.ModTime().After(before) {
			continue
		}
		lock, err := fileutil.TryLockFile(name, os.O_RDWR, 0o600)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(filepath.Dir(name))
		_ = lock.Close()
	}
}
