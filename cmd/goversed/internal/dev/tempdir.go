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

	// tempAge keeps the sweep away from a directory whose owner is about to lock it.
	tempAge = time.Minute
)

// tempDir is a directory that is gone after release; the lock in it, which the
// system drops with the process, shows that its owner lives.
type tempDir struct {
	path string
	lock *fileutil.LockedFile
}

// makeTempDir makes one in parent, and removes those that killed predecessors of
// ours left there: etcd's files are some hundred megabytes.
func makeTempDir(parent string) (*tempDir, error) {
	sweep(parent, time.Now().Add(-tempAge))
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

// sweep removes what nobody holds and what was made before then. What cannot be
// removed (another user's) stays: it is in nobody's way.
func sweep(parent string, before time.Time) {
	locks, _ := filepath.Glob(filepath.Join(parent, tempPattern+"*", tempLock)) // the pattern is a good one
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
