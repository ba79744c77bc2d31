package embedetcd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// dbPatience bounds the wait for another program that has the database open.
const dbPatience = 250 * time.Millisecond

var errCutShort = errors.New("the file is cut short")

// check looks at the database before etcd does, which answers a damaged one with a
// panic in a goroutine of its own, and one that another program has open by waiting
// forever. It reads little: damage deep inside is still found by etcd only.
func (d *dataDir) check() error {
	path := filepath.Join(d.path, "member", "snap", "db")
	var system syscall.Errno
	switch err := readable(path); {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return inUse(d.path, err)
	case errors.As(err, &system): // no memory to map it, no locks on that file system: it may well be whole
		return unusable(d.path, err)
	default:
		return fmt.Errorf("embedetcd: %w: restore a backup into %s, or move that directory away and start with an empty "+
			"one (%w)",
			ErrDamaged, d.path, &fs.PathError{Op: "open", Path: path, Err: err})
	}
}

// readable is why the database cannot be read, nil if it can.
func readable(path string) (err error) {
	// Pages that are garbage make the library panic, or lead it astray.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		// A crash in the first moment leaves that; etcd fills it from its log, unless
		// the log begins at a snapshot.
		if snapshots, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.snap")); len(snapshots) > 0 {
			return errCutShort
		}
		return nil
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: dbPatience})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.Begin(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	// Anew: who closed it meanwhile may have made it longer.
	if info, err = os.Stat(path); err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return errCutShort
	}
	return tx.ForEach(func([]byte, *bbolt.Bucket) error { return nil })
}
