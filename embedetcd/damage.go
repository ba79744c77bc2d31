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

// dbPatience limits the wait for another program that has the database open.
const dbPatience = 250 * time.Millisecond

var errCutShort = errors.New("the file is cut short")

// checkDatabase inspects the database before etcd opens it. etcd panics on a damaged database, in a goroutine of its
// own, and waits forever for one that another program has open. checkDatabase reads only a little of the file; etcd
// alone finds damage deep inside.
func (d *dataDir) checkDatabase() error {
	path := filepath.Join(d.path, "member", "snap", "db")
	var system syscall.Errno
	switch err := unreadableReason(path); {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return inUseError(d.path, err)
	case errors.As(err, &system): // no memory to map it, or no locks on that file system: it may be intact
		return unusableError(d.path, err)
	default:
		return fmt.Errorf("embedetcd: %w: restore a backup into %s, or move that directory away and start with an empty "+
			"one (%w)",
			ErrDamaged, d.path, &fs.PathError{Op: "open", Path: path, Err: err})
	}
}

// unreadableReason returns the reason that the database cannot be read, or nil.
func unreadableReason(path string) (err error) {
	// Garbage in pages can make the library panic or access invalid memory.
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
		// A crash right after the file's creation leaves it empty. etcd fills it from its log, unless the log
		// begins at a snapshot.
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
	// Stat again: a program that has just closed the database may have extended it.
	if info, err = os.Stat(path); err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return errCutShort
	}
	return tx.ForEach(func([]byte, *bbolt.Bucket) error { return nil })
}
