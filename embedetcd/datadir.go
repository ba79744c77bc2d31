package embedetcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// lockName is the file that marks a data directory as used.
const lockName = "goverse.lock"

// dataDir is a directory that this server uses exclusively until release.
type dataDir struct {
	path      string
	temporary bool
	lock      *fileutil.LockedFile
}

// openDataDir creates the directory if needed and locks it. It uses a lock of its own because etcd itself waits
// silently, without a limit, if another server has its database open.
func openDataDir(path string) (*dataDir, error) {
	d := &dataDir{path: path}
	if path == "" {
		made, err := os.MkdirTemp("", "goverse-etcd-")
		if err != nil {
			return nil, noTempError(err)
		}
		d.path, d.temporary = made, true
	} else if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, unusableError(path, err)
	}
	lock, err := fileutil.TryLockFile(filepath.Join(d.path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, inUseError(path, err)
	}
	if err != nil {
		return nil, unusableError(d.path, err)
	}
	d.lock = lock
	return d, nil
}

// release unlocks the directory and removes it if it was temporary.
func (d *dataDir) release() error {
	err := d.lock.Close()
	if d.temporary {
		err = errors.Join(err, os.RemoveAll(d.path))
	}
	return err
}

func inUseError(path string, cause error) error {
	return fmt.Errorf("embedetcd: %w: stop the one at %s or set another DataDir (%w)", ErrDataDirInUse, path, cause)
}

func noTempError(cause error) error {
	return fmt.Errorf("embedetcd: %w: set TMPDIR to a directory that this user may write (%w)", ErrDataDir, cause)
}

func unusableError(path string, cause error) error {
	return fmt.Errorf("embedetcd: %w: set DataDir to a directory that this user may create and write, instead of %s (%w)",
		ErrDataDir, path, cause)
}
